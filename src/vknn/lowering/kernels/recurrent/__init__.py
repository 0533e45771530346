"""RNN, GRU and LSTM, on floats and on integers."""
