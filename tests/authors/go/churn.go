package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"

	pintle "pintle.dev/sdk"
)

// nRounds is how often everything is read in one run.
const nRounds = 2

// ConfigMap holds a text: its name, so many times.
type ConfigMap struct {
	Metadata pintle.ObjectMeta `json:"metadata"`
	Data     struct {
		Text  string `json:"text"`
		Times int    `json:"times,string"`
	} `json:"data"`
}

// A collection begins as soon as the heap has grown by a hundredth.
func init() { debug.SetGCPercent(1) }

// collections counts those that end while the host is being asked.
type collections struct{ during uint64 }

func (c *collections) ask(call func() error) error {
	before := nCollections()
	err := call()
	c.during += nCollections() - before
	return err
}

func nCollections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// node is garbage that only a collection finds: it refers to itself.
type node struct {
	self *node
	text []byte
}

// churn reads the world again and again while the heap is full of garbage, and looks whether what was read is what was there.
func churn(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	var seen collections
	checked := 0
	for round := range nRounds {
		garbage(round)
		var all []ConfigMap
		err := seen.ask(func() (err error) {
			all, err = pintle.List[ConfigMap](lister, configMapKind, pintle.Query{Namespace: key.Namespace})
			return err
		})
		if err != nil {
			return nil, err
		}
		for i, listed := range all {
			garbage(i)
			var one *ConfigMap
			err := seen.ask(func() (err error) {
				one, err = pintle.Get[ConfigMap](lister, configMapKind, key.Namespace, listed.Metadata.Name)
				return err
			})
			if err != nil || one == nil {
				return nil, fmt.Errorf("get %s: %v, %w", listed.Metadata.Name, one, err)
			}
			for _, read := range []ConfigMap{listed, *one} {
				if read.Data.Text != strings.Repeat(read.Metadata.Name, read.Data.Times) {
					return nil, pintle.Terminal("corrupt: %s", read.Metadata.Name)
				}
				checked++
			}
		}
		config, err := pintle.Config[struct{ Word string }](lister)
		if word, _ := lister.State("word"); err != nil || word != config.Word {
			return nil, pintle.Terminal("corrupt: state or configuration")
		}
	}
	pintle.Warnf("collections during calls: %d", seen.during)
	runtime.KeepAlive(kept)
	return keep("checked", strconv.Itoa(checked)), nil
}

// kept lives until it is replaced, between what dies at once.
var kept [64]*node

func garbage(seed int) {
	for i := range 64 {
		size := (seed*31+i*97)%1500 + 1
		fresh := &node{text: make([]byte, size)}
		fresh.self = fresh
		if i%8 == 0 {
			kept[i] = fresh
		}
	}
}
