import static java.util.stream.Collectors.joining;

import java.math.BigDecimal;
import java.net.URI;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;

/**
 * Calls the Java example of docs/COOKBOOK.md, which is beside this file, and prints the results as JSON.
 *
 * <p>Usage: ReadRollups TABLE. The SDK's older versions read no endpoint from the environment, so this program does.
 */
public final class ReadRollups {
    public static void main(String[] arguments) {
        var endpoint = URI.create(System.getenv("AWS_ENDPOINT_URL_DYNAMODB"));
        try (var client = DynamoDbClient.builder().endpointOverride(endpoint).build()) {
            System.out.println(json(new Rollups(client, arguments[0])));
        }
    }

    private static String json(Rollups rollups) {
        var chess = new Rollups.RankedGroup("score#GAME#chess", "points", 2);
        var checkers = new Rollups.RankedGroup("score#GAME#checkers", "points", 1);
        var ranks = Stream.of("90", "70", "50", "10").map(value -> rollups.readRank(chess, new BigDecimal(value)));
        var results = Map.of(
            "sharded", rollups.readSharded("ORDERS", "ROLLUP", 120, "orders"),
            "buckets", sorts(rollups.readBuckets("REPO", "ROLLUP#DAY#2026-02-01", "ROLLUP#DAY#2026-02-28")),
            "ranked", sorts(rollups.readRanked("SALES", "ITEM#", "orders", 2)),
            "top", points(rollups.readTop(chess, 3)),
            "around", points(rollups.readAround(chess, BigDecimal.valueOf(50), 2)),
            "ranks", ranks.toList(),
            "only", points(rollups.readTop(checkers, 3)));
        return results.entrySet().stream().map(ReadRollups::member).collect(joining(", ", "{", "}"));
    }

    /** The text of a list is JSON already. */
    private static String member(Map.Entry<String, ?> result) {
        return "\"" + result.getKey() + "\": " + result.getValue();
    }

    private static List<String> sorts(List<Map<String, AttributeValue>> rollups) {
        return rollups.stream().map(rollup -> "\"" + rollup.get("SK").s() + "\"").toList();
    }

    private static List<BigDecimal> points(List<Map<String, AttributeValue>> rollups) {
        return rollups.stream().map(rollup -> Rollups.number(rollup, "points")).toList();
    }
}
