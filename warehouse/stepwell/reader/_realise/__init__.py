"""Token ids for steps that have only text: a chat template renders them, a tokenizer encodes them.

`messages` makes of canonical messages what templates take, `template` renders and knows what the answer is, `check` finds what a
template left out, `encode` turns text into ids, and `realise` puts them together. What comes out was never sampled, and says so.
"""
