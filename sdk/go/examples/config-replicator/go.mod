module example.com/config-replicator

go 1.26.0

require pintle.dev/sdk v0.0.0

replace pintle.dev/sdk => ../..
