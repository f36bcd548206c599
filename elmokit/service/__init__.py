"""ELMo over HTTP: an application, what it may be asked, and the explorer page."""
