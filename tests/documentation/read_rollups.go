// Calls the Go example of docs/COOKBOOK.md, which is in the folder rollups beside this file, and prints the results as JSON.
//
// Usage: read_rollups TABLE. The SDK's older versions read no endpoint from the environment, so this program does.
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"./rollups"
)

func main() {
	ctx, table := context.Background(), os.Args[1]
	client := dynamodb.New(dynamodb.Options{
		Region:           os.Getenv("AWS_REGION"),
		Credentials:      aws.CredentialsProviderFunc(credentials),
		EndpointResolver: dynamodb.EndpointResolverFromURL(os.Getenv("AWS_ENDPOINT_URL_DYNAMODB")),
	})
	chess := rollups.RankedGroup{Client: client, Table: table, Name: "score#GAME#chess", Measure: "points", Shards: 2}
	checkers := rollups.RankedGroup{Client: client, Table: table, Name: "score#GAME#checkers", Measure: "points", Shards: 1}
	var ranks []int
	for _, value := range []string{"90", "70", "50", "10"} {
		ranks = append(ranks, must(chess.Rank(ctx, value)))
	}
	result := map[string]any{
		"sharded": json.Number(must(rollups.ReadSharded(ctx, client, table, "ORDERS", "ROLLUP", 120, "orders")).RatString()),
		"buckets": sorts(must(rollups.ReadBuckets(ctx, client, table, "REPO", "ROLLUP#DAY#2026-02-01", "ROLLUP#DAY#2026-02-28"))),
		"ranked":  sorts(must(rollups.ReadRanked(ctx, client, table, "SALES", "ITEM#", "orders", 2))),
		"top":     points(must(chess.Top(ctx, 3))),
		"around":  points(must(chess.Around(ctx, "50", 2))),
		"ranks":   ranks,
		"only":    points(must(checkers.Top(ctx, 3))),
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		panic(err)
	}
}

func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}, nil
}

func sorts(items []rollups.Rollup) []string {
	var sorts []string
	for _, item := range items {
		sorts = append(sorts, item["SK"].(*types.AttributeValueMemberS).Value)
	}
	return sorts
}

func points(items []rollups.Rollup) []json.Number {
	var points []json.Number
	for _, item := range items {
		points = append(points, json.Number(rollups.Number(item, "points").RatString()))
	}
	return points
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
