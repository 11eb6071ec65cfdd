"""Define `%wap` and `%%wap`."""
