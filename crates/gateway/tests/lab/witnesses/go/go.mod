module tidegate.example/witness

go 1.22
