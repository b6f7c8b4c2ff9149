// A queue of records in files, for apps: each record is stored once in the pipe, also when the app is stopped at any moment.
//
//   keep() ──▶ open.ndjson ──full, or sendPending()──▶ 1790000000000-KEY.ndjson ──202──▶ removed
//                                                         └─400, 413, 422──▶ rejected/
//
// Kotlin 1.3 or newer: Android, or any JVM of version 8 or newer. No library. Call sendPending() in a background thread, every few
// seconds, when the network is back, and from a WorkManager job when the app goes to the background.
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.RandomAccessFile
import java.net.HttpURLConnection
import java.net.URL
import java.util.UUID

/** `url`: `https://…/v1/ingest/PIPE_ID`. `directory`: of this queue alone, for example `File(context.filesDir, "pipectl")`. */
class PipectlQueue(private val url: URL, private val apiKey: String, private val directory: File) {
    private val open = File(directory, "open.ndjson")
    private var openRecords = 0
    private var openBytes = 0L
    private var failures = 0
    private var resumeAtMs = 0L
    private var isSending = false

    /** Batches that were discarded because the queue was full, or set aside because the daemon rejects them. */
    @Volatile
    var dropped = 0
        private set

    init {
        File(directory, "rejected").mkdirs()
        // The last records before the app was stopped. They were in no request, and a torn line was never accepted.
        if (open.exists()) {
            openBytes = open.readBytes().indexOfLast { it == '\n'.toByte() } + 1L
            closeBatch()
        }
    }

    /** `record`: one JSON object. When this returns, the record is in a file. Throws IOException. */
    @Synchronized
    fun keep(record: String) {
        val line = (record.replace('\n', ' ').replace('\r', ' ') + "\n").toByteArray()
        RandomAccessFile(open, "rw").use {
            it.setLength(openBytes)
            it.seek(openBytes)
            it.write(line)
        }
        openRecords++
        openBytes += line.size
        if (openRecords >= MAX_RECORDS || openBytes >= MAX_BYTES) closeBatch()
    }

    /** Sends until nothing is pending, or until a request fails. Returns whether nothing is pending. */
    fun sendPending(): Boolean {
        if (!begin()) return false
        try {
            while (true) {
                val batch = batches().firstOrNull() ?: return true
                val (status, retryAfterMs) = post(batch)
                if (status != 202 && status !in REJECTED) {
                    later(retryAfterMs)
                    return false
                }
                if (status in REJECTED) {
                    dropped++
                    batch.renameTo(File(directory, "rejected/${batch.name}"))
                }
                batch.delete()
                failures = 0
            }
        } finally {
            synchronized(this) { isSending = false }
        }
    }

    @Synchronized
    private fun begin(): Boolean {
        if (isSending || System.currentTimeMillis() < resumeAtMs) return false
        if (openBytes > 0) closeBatch()
        isSending = true
        return true
    }

    private fun later(retryAfterMs: Long) {
        val backoffMs = minOf(1_000L shl minOf(failures++, 20), LONGEST_WAIT_MS)
        // A random part, so that not all devices return in the same second after an outage.
        val waitMs = maxOf((backoffMs * (0.5 + Math.random() / 2)).toLong(), retryAfterMs)
        resumeAtMs = System.currentTimeMillis() + waitMs
    }

    /** The status, 0 without a response, and the milliseconds of Retry-After. */
    private fun post(batch: File): Pair<Int, Long> {
        val connection = url.openConnection() as HttpURLConnection
        try {
            val body = batch.readBytes()
            connection.connectTimeout = 10_000
            connection.readTimeout = 10_000
            connection.requestMethod = "POST"
            connection.doOutput = true
            // A POST that fails is repeated here and with its key, not by the class.
            connection.setFixedLengthStreamingMode(body.size)
            connection.setRequestProperty("Authorization", "Bearer $apiKey")
            connection.setRequestProperty("Content-Type", "application/x-ndjson")
            // The same in every attempt: a batch whose response was lost is not stored again.
            connection.setRequestProperty("Idempotency-Key", batch.nameWithoutExtension.substringAfter('-'))
            connection.outputStream.use { it.write(body) }
            val seconds = connection.getHeaderField("Retry-After")?.toLongOrNull() ?: 0
            return Pair(connection.responseCode, minOf(seconds, 3_600) * 1_000)
        } catch (error: IOException) {
            return Pair(0, 0L)
        } finally {
            connection.disconnect()
        }
    }

    /** From here on the bytes do not change: the key stands for them. */
    private fun closeBatch() {
        FileOutputStream(open, true).use {
            it.channel.truncate(openBytes)
            // Before the batch has a key, so that a power cut does not change what the key stands for.
            it.fd.sync()
        }
        // Sorted by its name, after the others, even if two are closed at once or the clock was set back.
        val last = batches().lastOrNull()?.name?.take(13)?.toLongOrNull() ?: 0
        val name = "%013d-%s.ndjson".format(maxOf(System.currentTimeMillis(), last + 1), UUID.randomUUID())
        if (openBytes == 0L) open.delete() else if (!open.renameTo(File(directory, name))) throw IOException("cannot rename $open")
        openRecords = 0
        openBytes = 0
        val waiting = batches()
        if (waiting.size > MAX_BATCHES && !isSending) {
            dropped++
            waiting[0].delete()
        }
    }

    private fun batches(): List<File> =
        (directory.listFiles() ?: arrayOf()).filter { '-' in it.name && it.extension == "ndjson" }.sortedBy { it.name }

    private companion object {
        const val MAX_RECORDS = 100
        const val MAX_BYTES = 100_000L
        // 200 batches are at most 20 MB. More than that drops the oldest.
        const val MAX_BATCHES = 200
        const val LONGEST_WAIT_MS = 300_000L
        val REJECTED = setOf(400, 413, 422)
    }
}
