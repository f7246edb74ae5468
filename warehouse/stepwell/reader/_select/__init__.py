"""Which steps may train, decided from columns alone: nothing here reads a token.

`facts` asks the warehouse, `columns` makes numbers of the answers, `steps` holds them; `sampling`, `drift` and `rules` say what of the
selection trains and why the rest does not; `order` puts prompt groups into optimizer steps.
"""
