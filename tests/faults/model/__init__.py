"""R12: a state machine over the public interface, beside a model of what it promises."""
