// A queue of records in files, for apps: each record is stored once in the pipe, also when the app is stopped at any moment.
//
//   keep() ──▶ open.ndjson ──full, or sendPending()──▶ 1790000000000-KEY.ndjson ──202──▶ removed
//                                                         └─400, 413, 422──▶ rejected/
//
// Swift 5.7 or newer with Foundation: iOS 15, macOS 12, Linux. Call sendPending() every few seconds, when the network is back, and
// when the app goes to the background.
import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

public actor PipectlQueue {
    private static let maxRecords = 100
    private static let maxBytes = 100_000
    // 200 batches are at most 20 MB. More than that drops the oldest.
    private static let maxBatches = 200
    private static let longestWaitSeconds = 300.0

    private let url: URL
    private let apiKey: String
    private let directory: URL
    private var openRecords = 0
    private var openBytes = 0
    private var failures = 0
    private var resumeAt = Date.distantPast
    private var isSending = false
    /// Batches that were discarded because the queue was full, or set aside because the daemon rejects them.
    public private(set) var dropped = 0

    /// `url`: `https://…/v1/ingest/PIPE_ID`. `directory`: of this queue alone, for example in Application Support.
    public init(url: URL, apiKey: String, directory: URL) throws {
        (self.url, self.apiKey, self.directory) = (url, apiKey, directory)
        try FileManager.default.createDirectory(
            at: directory.appendingPathComponent("rejected"), withIntermediateDirectories: true)
        // The last records before the app was stopped. They were in no request, and a torn line was never accepted.
        let open = directory.appendingPathComponent("open.ndjson")
        if let content = try? Data(contentsOf: open) {
            try Self.close(content.prefix(content.lastIndex(of: 10).map { $0 + 1 } ?? 0), of: directory)
        }
    }

    /// `record`: one JSON object. When this returns, the record is in a file.
    public func keep(_ record: Data) throws {
        let line = Data(record.map { $0 == 10 || $0 == 13 ? 32 : $0 }) + [10]
        let open = directory.appendingPathComponent("open.ndjson")
        if openBytes == 0 { _ = FileManager.default.createFile(atPath: open.path, contents: nil) }
        let file = try FileHandle(forWritingTo: open)
        defer { try? file.close() }
        try file.truncate(atOffset: UInt64(openBytes))
        try file.seekToEnd()
        try file.write(contentsOf: line)
        openRecords += 1
        openBytes += line.count
        if openRecords >= Self.maxRecords || openBytes >= Self.maxBytes { try closeBatch() }
    }

    /// Sends until nothing is pending, or until a request fails. Returns whether nothing is pending.
    public func sendPending() async -> Bool {
        if isSending || Date() < resumeAt { return false }
        isSending = true
        defer { isSending = false }
        if openBytes > 0 { try? closeBatch() }
        while let batch = Self.batches(in: directory).first {
            let (status, retryAfter) = await post(batch)
            if status == 202 {
                try? FileManager.default.removeItem(at: batch)
            } else if [400, 413, 422].contains(status) {
                dropped += 1
                let aside = directory.appendingPathComponent("rejected/\(batch.lastPathComponent)")
                try? FileManager.default.moveItem(at: batch, to: aside)
            } else {
                // A random part, so that not all devices return in the same second after an outage.
                let backoff = min(pow(2, Double(failures)), Self.longestWaitSeconds) * Double.random(in: 0.5...1)
                failures = min(failures + 1, 20)
                resumeAt = Date() + max(backoff, retryAfter)
                return false
            }
            failures = 0
        }
        return true
    }

    /// The status, 0 without a response, and the seconds of Retry-After.
    private func post(_ batch: URL) async -> (Int, Double) {
        guard let body = try? Data(contentsOf: batch) else { return (0, 0) }
        var request = URLRequest(url: url, timeoutInterval: 10)
        request.httpMethod = "POST"
        request.httpBody = body
        request.setValue("Bearer \(apiKey)", forHTTPHeaderField: "Authorization")
        request.setValue("application/x-ndjson", forHTTPHeaderField: "Content-Type")
        // The same in every attempt: a batch whose response was lost is not stored again.
        let key = String(batch.deletingPathExtension().lastPathComponent.drop { $0 != "-" }.dropFirst())
        request.setValue(key, forHTTPHeaderField: "Idempotency-Key")
        let asked = request
        return await withCheckedContinuation { continuation in
            URLSession.shared.dataTask(with: asked) { _, response, _ in
                let http = response as? HTTPURLResponse
                let retryAfter = Double(http?.value(forHTTPHeaderField: "Retry-After") ?? "") ?? 0
                continuation.resume(returning: (http?.statusCode ?? 0, min(retryAfter, 3_600)))
            }.resume()
        }
    }

    private func closeBatch() throws {
        let content = try Data(contentsOf: directory.appendingPathComponent("open.ndjson"))
        try Self.close(content.prefix(openBytes), of: directory)
        (openRecords, openBytes) = (0, 0)
        let waiting = Self.batches(in: directory)
        if waiting.count > Self.maxBatches, !isSending {
            dropped += 1
            try FileManager.default.removeItem(at: waiting[0])
        }
    }

    /// From here on the bytes do not change: the key stands for them.
    private static func close(_ content: Data, of directory: URL) throws {
        let open = directory.appendingPathComponent("open.ndjson")
        if content.isEmpty { return try FileManager.default.removeItem(at: open) }
        let file = try FileHandle(forWritingTo: open)
        try file.truncate(atOffset: UInt64(content.count))
        // Before the batch has a key, so that a power cut does not change what the key stands for.
        try file.synchronize()
        try file.close()
        // Sorted by its name, after the others, even if two are closed at once or the clock was set back.
        let last = batches(in: directory).last.flatMap { Int($0.lastPathComponent.prefix(13)) } ?? 0
        let ms = max(Int(Date().timeIntervalSince1970 * 1_000), last + 1)
        let name = String(format: "%013ld-", ms) + UUID().uuidString + ".ndjson"
        try FileManager.default.moveItem(at: open, to: directory.appendingPathComponent(name))
    }

    private static func batches(in directory: URL) -> [URL] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        return names.filter { $0.contains("-") && $0.hasSuffix(".ndjson") }.sorted().map(directory.appendingPathComponent)
    }
}
