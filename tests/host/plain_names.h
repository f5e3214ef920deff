/* The plain kernels have the prototypes of poet/kernels.h under the prefix plain_, so that both
 * can be linked into one program. Include before poet/kernels.h, and not beside its own names.
 */
#ifndef POET_TESTS_PLAIN_NAMES_H
#define POET_TESTS_PLAIN_NAMES_H

#define poet_conv2d_fwd_f32 plain_conv2d_fwd_f32
#define poet_conv2d_bwd_x_f32 plain_conv2d_bwd_x_f32
#define poet_conv2d_bwd_w_f32 plain_conv2d_bwd_w_f32
#define poet_channel_sum_f32 plain_channel_sum_f32
#define poet_dense_fwd_f32 plain_dense_fwd_f32
#define poet_dense_bwd_x_f32 plain_dense_bwd_x_f32
#define poet_dense_bwd_w_f32 plain_dense_bwd_w_f32
#define poet_maxpool2d_fwd_f32 plain_maxpool2d_fwd_f32
#define poet_maxpool2d_bwd_f32 plain_maxpool2d_bwd_f32
#define poet_relu_fwd_f32 plain_relu_fwd_f32
#define poet_relu_bwd_f32 plain_relu_bwd_f32
#define poet_add_fwd_f32 plain_add_fwd_f32
#define poet_softmax_xent_f32 plain_softmax_xent_f32
#define poet_mse_f32 plain_mse_f32
#define poet_sgd_f32 plain_sgd_f32

#endif
