"""ONNX files to the forward graph."""
