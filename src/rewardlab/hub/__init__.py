"""Sharing runs: list, pull and push on one URL (file://, s3://, hf://)."""
