"""Operations on a whole ranker: transfers of what was learnt, and undo."""
