// Sends the lines of stdin through the queue:  swiftc main.swift PipectlQueue.swift -o send && ./send < records.ndjson
import Foundation

setvbuf(stdout, nil, _IOLBF, 0)
let environment = ProcessInfo.processInfo.environment
guard let url = environment["PIPECTL_INGEST_URL"].flatMap(URL.init(string:)), let key = environment["PIPECTL_API_KEY"] else {
    fatalError("PIPECTL_INGEST_URL and PIPECTL_API_KEY must be set")
}
let directory = URL(fileURLWithPath: environment["PIPECTL_QUEUE"] ?? "queue", isDirectory: true)
let queue = try PipectlQueue(url: url, apiKey: key, directory: directory)
while let line = readLine() {
    try await queue.keep(Data(line.utf8))
    print("kept \(line)")
}
while await !queue.sendPending() {
    try await Task.sleep(nanoseconds: 100_000_000)
}
let dropped = await queue.dropped
print("sent, \(dropped) batches dropped")
