package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// settings are those of `open`, times in milliseconds.
type settings struct {
	Producer *struct {
		Acks           int     `json:"acks"`
		Idempotent     bool    `json:"idempotent"`
		Transactional  string  `json:"transactional_id"`
		Transaction    int     `json:"transaction_timeout_ms"`
		Retries        int     `json:"retries"`
		InFlight       int     `json:"in_flight"`
		Linger         float64 `json:"linger_ms"`
		BatchRecords   int     `json:"batch_records"`
		MessageTimeout int     `json:"message_timeout_ms"`
		RequestTimeout int     `json:"request_timeout_ms"`
	} `json:"producer"`
	Consumer *struct {
		Isolation int    `json:"isolation"`
		Group     string `json:"group"`
		Reset     string `json:"auto_offset_reset"`
		Session   int    `json:"session_timeout_ms"`
	} `json:"consumer"`
}

func ms(given int) time.Duration { return time.Duration(given) * time.Millisecond }

// options are the settings by the names of franz-go.
func options(one *command) ([]kgo.Opt, error) {
	found := []kgo.Opt{kgo.SeedBrokers(strings.Split(one.Bootstrap, ",")...), kgo.DialTimeout(time.Second),
		kgo.MetadataMinAge(250 * time.Millisecond), kgo.RetryTimeout(ms(one.TimeoutMs))}
	if p := one.Client.Producer; p != nil {
		acks := map[int]kgo.Acks{-1: kgo.AllISRAcks(), 0: kgo.NoAck(), 1: kgo.LeaderAck()}[p.Acks]
		found = append(found, kgo.RequiredAcks(acks), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.RecordRetries(p.Retries), kgo.ProducerLinger(time.Duration(p.Linger*1e6)),
			kgo.ProduceRequestTimeout(max(100*time.Millisecond, ms(p.RequestTimeout))))
		if !p.Idempotent {
			found = append(found, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(p.InFlight))
		}
		if p.MessageTimeout > 0 {
			found = append(found, kgo.RecordDeliveryTimeout(max(time.Second, ms(p.MessageTimeout))))
		}
		if p.BatchRecords < 100 { // franz-go counts bytes: at least these, which is a record of a test or two
			found = append(found, kgo.ProducerBatchMaxBytes(512))
		}
		if p.Transactional != "" {
			found = append(found, kgo.TransactionalID(p.Transactional), kgo.TransactionTimeout(ms(p.Transaction)))
		}
	}
	if c := one.Client.Consumer; c != nil {
		start := map[string]kgo.Offset{"earliest": kgo.NewOffset().AtStart(), "latest": kgo.NewOffset().AtEnd()}
		from, known := start[c.Reset]
		if !known {
			from = kgo.NoResetOffset()
		}
		level := []kgo.IsolationLevel{kgo.ReadUncommitted(), kgo.ReadCommitted()}[c.Isolation]
		found = append(found, kgo.ConsumeResetOffset(from), kgo.FetchIsolationLevel(level), kgo.FetchMaxWait(100*time.Millisecond))
		if c.Group != "" {
			session := ms(c.Session)
			found = append(found, kgo.ConsumerGroup(c.Group), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
				kgo.RequireStableFetchOffsets(), kgo.SessionTimeout(session), kgo.HeartbeatInterval(session/6))
		}
	}
	return secured(found, one.Security)
}

func secured(found []kgo.Opt, given map[string]string) ([]kgo.Opt, error) {
	secrets, named := tls.Config{RootCAs: x509.NewCertPool()}, false
	for name, value := range given {
		pem := []byte(value)
		switch name {
		case "security.protocol", "sasl.mechanism", "sasl.username", "sasl.password":
		case "ssl.endpoint.identification.algorithm":
			secrets.InsecureSkipVerify = value == "none"
		case "ssl.ca.location":
			read, err := os.ReadFile(value)
			if err != nil {
				return nil, err
			}
			pem = read
			fallthrough
		case "ssl.ca.pem":
			named = secrets.RootCAs.AppendCertsFromPEM(pem)
		default:
			return nil, failed{name + ": not a setting of this client"}
		}
	}
	if !named {
		secrets.RootCAs = nil
	}
	if strings.HasSuffix(strings.ToUpper(given["security.protocol"]), "SSL") {
		found = append(found, kgo.DialTLSConfig(&secrets))
	}
	user, password := given["sasl.username"], given["sasl.password"]
	switch given["sasl.mechanism"] {
	case "PLAIN":
		found = append(found, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		found = append(found, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		found = append(found, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	}
	return found, nil
}
