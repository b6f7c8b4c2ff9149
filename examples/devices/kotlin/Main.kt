// Sends the lines of stdin through the queue:
//   kotlinc Main.kt PipectlQueue.kt -include-runtime -d send.jar && java -jar send.jar < records.ndjson
import java.io.File
import java.net.URL

fun main() {
    val url = System.getenv("PIPECTL_INGEST_URL") ?: error("PIPECTL_INGEST_URL must be set")
    val key = System.getenv("PIPECTL_API_KEY") ?: error("PIPECTL_API_KEY must be set")
    val queue = PipectlQueue(URL(url), key, File(System.getenv("PIPECTL_QUEUE") ?: "queue"))
    for (line in generateSequence(::readLine)) {
        queue.keep(line)
        println("kept $line")
    }
    while (!queue.sendPending()) Thread.sleep(100)
    println("sent, ${queue.dropped} batches dropped")
}
