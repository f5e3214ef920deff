"""From the forward graph to the training graph: loss, backward pass, updates."""
