"""The protocol of Bedrock::Jobs over a real socket, on a real daemon."""
