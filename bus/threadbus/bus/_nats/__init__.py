"""The ports filled by a NATS server with JetStream; the only code that imports nats."""
