"""Models at run time: engines that compute them, without gradients."""
