/**
 * The limits of one request, one message, one destination and one unknown client, each with its unit and reason. A
 * limit that an operator can change is the default of the setting named with it. All others are fixed.
 */
const KiB = 1024
const MiB = 1024 * KiB

export const resourceLimits = {
  /**
   * History rows per lane: 24 h with one batch per second. Older rows are deleted; of their messages only the state
   * is known.
   */
  historyRowsPerLane: 100_000,
  /**
   * Delivery attempts kept per lane, by outcome, and for how long. The newest are kept. Failures are rarer and are
   * often investigated days later.
   */
  deliveredAttemptsPerLane: 700,
  deliveredAttemptHours: 24,
  failedAttemptsPerLane: 300,
  failedAttemptHours: 7 * 24,
  /** Replays of one lane that wait or run; and those kept after their end, by number and age. */
  replaysPerLane: 10,
  finishedReplaysPerLane: 50,
  finishedReplayDays: 30,
  /**
   * Jobs on personal data: keys and pipes of one job, records that are listed, jobs of a workspace that wait or run, and
   * those kept after their end, by number and age.
   */
  privacyKeys: 10,
  privacyPipes: 1_000,
  privacyMatches: 1_000,
  privacyJobsPerWorkspace: 20,
  finishedPrivacyJobs: 100,
  finishedPrivacyDays: 400,
  /** Bytes of parked records that are compared before other work of the thread runs. */
  privacyStepBytes: 1 * MiB,
  /** The largest metadata.db whose free space a deletion rewrites. It takes as much free disk space and seconds. */
  privacyVacuumBytes: 2 * 1024 * MiB,
  /** Excerpts of one attempt: bytes of the response body, and characters of all headers of one side. */
  attemptExcerptBytes: 1 * KiB,
  attemptHeaderCharacters: 2_000,
  /** Records shown of one message: the number of its first records, and the total size of their text. */
  shownRecords: 20,
  shownRecordBytes: 4 * MiB,
  messagesPerPage: 200,
  /**
   * A listed message shows the beginning of its first record: characters that are shown, bytes that are read for it,
   * and the largest body of which they are read, because SQLite reads a value as a whole.
   */
  excerptCharacters: 300,
  listedBytes: 1_200,
  listedBodyBytes: 256 * KiB,
  /**
   * A search for messages: the bytes of bodies and the time of one request, and the bytes and messages of one step. After
   * each step the thread of look-ups pauses as long as the step took, so searches use at most half of a core.
   */
  searchedBytes: 64 * MiB,
  searchMs: 1_000,
  searchStepBytes: 1 * MiB,
  searchStepMessages: 1_000,
  /**
   * The records from which a schema is proposed, or which are checked against one: their number, their bytes and the
   * time. They are read in the steps of a search.
   */
  schemaSampleRecords: 100_000,
  schemaSampleBytes: 64 * MiB,
  schemaSampleMs: 10_000,
  /** Rows of a lane's history that are read to find messages in a rare state, in one step. A step takes about 2 ms. */
  searchedHistoryRuns: 5_000,
  /** Characters of a `key=value` filter. */
  conditionCharacters: 1_000,
  /** Live tails per workspace and in total; the largest text of a step and of a record. Larger texts are left out. */
  tailsPerWorkspace: 8,
  tails: 64,
  tailRunBytes: 1 * MiB,
  tailRecordBytes: 256 * KiB,
  /** The row group of a Parquet object, which is encoded in one step in memory: bytes of values, and cells. */
  parquetGroupBytes: 8 * MiB,
  parquetGroupCells: 1_000_000,
  /** Bytes of records that are copied to the Parquet thread in one step. A larger record is copied alone. */
  portionBytes: 1 * MiB,
  /**
   * Young generation of the Parquet thread's heap, in MiB. Small, because columns that are encoded live longer than any
   * young generation. With 16 the heap grew to 89 MiB instead of 59, in the same CPU time.
   */
  parquetYoungHeapMiB: 6,
  /**
   * Columns of a Parquet object, each with its own buffers in every row group; and the number of columns that take
   * the same key, which bounds the growth of the object.
   */
  parquetColumns: 256,
  parquetColumnsOfKey: 4,
  /** A number, or text for a numeric column, that is longer than this is rejected as a value of the column. */
  numericTextCharacters: 1_000,
  /**
   * Young generation of a thread's heap, in MiB. V8 allows 48 by default, fills it before it collects garbage, and
   * never returns it.
   */
  deliveryYoungHeapMiB: 24,
  driverYoungHeapMiB: 6,
  replicaYoungHeapMiB: 24,
  /** Bytes read from a destination during one attempt. If there are more, the connection is closed. */
  destinationReadBytes: 8 * MiB,
  /** Bytes of interim responses (100 Continue, 103 Early Hints) before one response of an HTTP endpoint. */
  interimResponseBytes: 64 * KiB,
  /**
   * Records per `_bulk` request. The response has an item for each: 300 bytes for a stored record, twice that for a
   * rejected one. All items must fit into `destinationReadBytes`.
   */
  bulkRecords: 5_000,
  /** One response of an object store. An upload result or an error is a few KiB of XML. */
  storeResponseBytes: 64 * KiB,
  /** Bytes of a destination's error text when it is stored, logged and shown. */
  errorMessageBytes: 1_024,
  errorCodeCharacters: 64,
  /** Characters of a rejected record's value in an error: enough to recognize it. */
  rejectedValueCharacters: 200,
  /** Rejected records that a driver passes to its lane in one call. */
  parkedAtOnce: 1_000,
  /**
   * Columns reported by the test of a database: more than a user maps by hand. A longer name is not treated as a
   * column name.
   */
  shownTableColumns: 500,
  tableColumnCharacters: 128,
  /**
   * The sample from which a table is proposed: the number of newest records, their bytes, and the keys of all of
   * them. A sample in the request must fit into a management body.
   */
  inferredRecords: 1_000,
  inferredBytes: 4 * MiB,
  inferredKeys: 1_000,
  inferredSampleCharacters: 900_000,
  /**
   * Trial of a transform: the time for all records, concurrent trials, bytes and records that the thread receives,
   * and the text of a record before and after. A longer text is not shown.
   */
  trialMs: 5_000,
  trialsAtOnce: 2,
  trialPortionBytes: 1 * MiB,
  trialPortionRecords: 100,
  trialRecordBytes: 256 * KiB,
  /**
   * Queries on the file of a SQLite destination. Each is a process: 60 MiB for Node.js, and the rest of its memory for SQLite.
   * Therefore only a few run at the same time. Then: bytes of rows in one response, characters of the statement, parameters.
   */
  queriesPerWorkspace: 2,
  queries: 4,
  queryMemoryBytes: 256 * MiB,
  queryResponseBytes: 4 * MiB,
  querySqlCharacters: 16_000,
  queryParameters: 100,
  /** Columns of all tables in a list of tables. */
  listedTableColumns: 10_000,
  /**
   * Columns that `auto_add_columns` adds to the table of a destination: in 24 hours, and in total. Keys come from clients, and
   * a table has few hundred columns.
   */
  autoAddedColumnsPerDay: 20,
  autoAddedColumns: 200,
  /** Keys per destination that are observed at the same time, values of each, and the bytes of a value. */
  observedKeys: 100,
  observedValues: 20,
  observedValueBytes: 512,
  /** Columns of a proposed table. A row of InnoDB holds about 190 columns of the largest type. */
  inferredColumns: 200,
  inferredMysqlColumns: 150,
  /**
   * Records per request (setting `ingest.max_records_per_request`). 10 KB of gzip can hold 3.5 million records `{}`,
   * and enriching those takes gigabytes of memory. Above a few thousand records, larger requests are not faster.
   */
  recordsPerRequest: 50_000,
  /**
   * Keys per record, including nested ones (setting `ingest.max_keys_per_record`). No table has as many columns, and
   * every step that iterates over a record pays for each key.
   */
  keysPerRecord: 10_000,
  /**
   * Bytes of one message in the buffer, after enrichment. SQLite accepts no value over 1,000,000,000 bytes, and every
   * reader holds the complete message in memory.
   */
  storedBytesPerMessage: 64 * MiB,
  /**
   * Bytes of messages that are written with one fsync. A larger message is written alone. Requests that arrive
   * meanwhile wait for the same number of bytes. Above a few MiB, larger frames are not faster.
   */
  frameBytes: 4 * MiB,
  /**
   * Largest decoded body that the main thread parses. Such a body is parsed faster than it is sent to another thread
   * and back. A larger one would delay every other client.
   */
  mainThreadBodyBytes: 256 * KiB,
  /** Values that the main thread lets JSON.parse create from one body. A small body can hold many tiny values. */
  mainThreadValues: 15_000,
  /**
   * Memory of the scanner on the main thread, which it never returns: 128 KiB of its own, the largest body that is
   * parsed there, and four times that for the stored form. Larger bodies use JSON.parse.
   */
  mainScannerBytes: (128 + 5 * 256) * KiB,
  /** The same limit in each parser thread: the largest body with default settings, plus its stored form. */
  parserScannerBytes: 64 * MiB,
  /** Size of a small body. The last part of the memory for bodies is reserved for small bodies. */
  smallBodyBytes: 64 * KiB,
  /** Concurrent decompressions: the size of the thread pool. */
  decodersAtOnce: 4,
  /** Bytes to which any body can be decompressed, whatever its compressed size. */
  freelyDecodedBytes: MiB,
  /**
   * Maximum compression ratio beyond `freelyDecodedBytes`. JSON of similar records reaches about 50. Only a
   * decompression bomb comes near the 1,032 of gzip.
   */
  maxDecodedPerByte: 200,
  /**
   * Pieces (chunks of the transfer encoding) of a body that can have any size, and the average size that the pieces
   * must have beyond that. Each piece costs the main thread about a microsecond, and one read of the socket returns
   * thousands.
   */
  tinyPieces: 20_000,
  averagePieceBytes: 16,
  /** Total bytes of a request's headers. nginx and others have the same limit. */
  headBytes: 8 * KiB,
  /** Number of a request's headers. No client sends as many. uWebSockets silently drops requests with fifty. */
  headers: 100,
  /**
   * Bytes and values, including nested ones, of a management request's body: several times the size of a valid one.
   * Reading and validating a body takes time of the main thread, which serves all workspaces. Exceptions follow
   * below.
   */
  managementBodyBytes: 64 * KiB,
  managementBodyValues: 1_000,
  /** A destination: 1,600 columns with five fields each, a config with certificates, a transform. */
  destinationBodyBytes: MiB,
  destinationBodyValues: 15_000,
  /** A pipe with a schema of 64 KiB, which can be written with indentation. More limits: `schema-words.ts`. */
  schemaBodyBytes: 256 * KiB,
  schemaBodyValues: 20_000,
  /** A transform of 8,000 characters, with records as one text. */
  sampleBodyBytes: MiB,
  sampleBodyValues: 5_000,
  /** Edited parked records. */
  replayBodyBytes: MiB,
  replayBodyValues: 20_000,
  /**
   * Records that do not match the schema of their pipe and wait to be parked: requests and bytes in total, of which one
   * pipe gets half. More are rejected with 503, so that metadata stays free for other work.
   */
  parkingRequests: 10_000,
  parkingBytes: 32 * MiB,
  /** Records and bytes per transaction that parks them. With SQLite the main thread waits for each. */
  parkingStepRecords: 200,
  parkingStepBytes: MiB,
  /** Records parked at a pipe that a replay holds in memory at once, unless one is larger. */
  replayStepBytes: 4 * MiB,
  /** Sign-in, setup links and password changes. Clients of the first two are not authenticated yet. */
  formBodyBytes: 4 * KiB,
  /**
   * Stored config of a destination: bytes of JSON, and keys. It is held in memory with its lane and shown with its
   * pipe. A larger config from an earlier version still works and can only become smaller.
   */
  storedConfigBytes: 64 * KiB,
  storedConfigKeys: 100,
  /**
   * Main-thread time that the keys of one workspace can use for management requests: milliseconds per second, the
   * burst after a pause, and the minimum charge per request. A request takes 1 to 5 ms, so a script that sends one
   * request after another reaches the limit after about 6,000 requests.
   */
  managementMsPerSecond: 300,
  managementMsAtOnce: 20_000,
  managementMsPerRequest: 1,
  /** Number of invalid fields that are explained. An explanation costs more than the check. */
  explainedFields: 100,
  /** File descriptors reserved for everything other than client connections, such as files and destinations. */
  descriptorsKept: 256,
  /**
   * Limits per workspace (settings `workspace.max_…`). Each item uses memory while the daemon runs (about 170 KiB for
   * a lane), and lists show all items.
   */
  pipesPerWorkspace: 1_000,
  destinationsPerWorkspace: 1_000,
  apiKeysPerWorkspace: 1_000,
  originsPerWorkspace: 10_000,
  /** Number of pipes that a key can be limited to. To cover more pipes, create an unlimited key or several keys. */
  pipesPerApiKey: 100,
  /**
   * The audit log: days, entries per workspace (a new entry replaces the oldest), bytes of the state before and
   * after, and entries deleted per step.
   */
  auditDays: 400,
  auditEntriesPerWorkspace: 100_000,
  auditStateBytes: 16 * KiB,
  auditPrunedAtOnce: 500,
  /**
   * Unsent alerts per workspace. At the limit, further alerts wait. Then: how long an alert is retried, concurrent
   * sends of all workspaces, and the timeout of one send.
   */
  alertsPerWorkspace: 100,
  alertSeconds: 3_600,
  alertsAtOnce: 32,
  alertTimeoutMs: 10_000,
  /** Minimum interval between two alerts about the same event of a lane. */
  alertEverySeconds: 300,
  /** How long a rotated key continues to work, in seconds. A week is enough to replace it everywhere. */
  apiKeyOverlapDefaultSeconds: 7 * 24 * 3_600,
  apiKeyOverlapSeconds: 90 * 24 * 3_600,
  /** Deleted pipes that are still stored because the buffer holds their messages. */
  deletedPipesPerWorkspace: 10_000,
  /**
   * Revoked keys kept per workspace, and for how many days lists show them. If a key is rotated every two hours, none
   * is removed earlier.
   */
  revokedApiKeysPerWorkspace: 1_100,
  revokedApiKeyDays: 90,
  /** Users per workspace, its unused setup links, and the sessions of one user. A new session ends the oldest. */
  usersPerWorkspace: 100,
  setupLinksPerWorkspace: 20,
  sessionsPerUser: 20,
  /** The file list of a backup. It is read into memory before the backup is verified: 150 bytes per file. */
  manifestBytes: 16 * MiB,
  /** A session ends after this idle time, and after this total time in any case. */
  sessionIdleSeconds: 30 * 60,
  sessionSeconds: 12 * 3_600,
  setupLinkSeconds: 24 * 3_600,
  /**
   * Failed sign-ins within `signInWindowSeconds`: per account and address (IPv6: /64 network) or known browser; per
   * address; and per account from all addresses. The last one limits guesses that are spread over many addresses
   * (NIST SP 800-63B asks for at most 100).
   */
  signInsPerAccount: 10,
  signInsPerAddress: 30,
  signInsPerAccountAnywhere: 100,
  signInWindowSeconds: 15 * 60,
  /** How long a browser keeps the cookie that marks it as known for a user. */
  knownBrowserSeconds: 180 * 86_400,
  /**
   * Passwords that wait to be hashed. They are hashed one at a time: each takes 128 MiB, half a second of a core, and
   * one of the four threads that also decompress bodies.
   */
  waitingPasswords: 16,
  /** Requests per session: the rate per second, and the burst after a pause. */
  sessionRequestsPerSecond: 20,
  sessionRequestsAtOnce: 100,
  /** Concurrent pulls per workspace: waiting ones, and those whose response is not read yet. */
  pullsPerWorkspace: 32,
  /** Bytes of messages in responses to pulls that are not read yet: per workspace, and in total. */
  pulledBytesPerWorkspace: 32 * MiB,
  pulledBytes: 128 * MiB,
  /**
   * Bytes of such a response that a client must read in this time. Otherwise its connection is closed, and the next
   * pull returns the message again. The rate is that of slow uploads: 16 KiB a second.
   */
  readWindowMs: 30_000,
  readWindowBytes: 480 * KiB,
  /** Ingest threads (setting `ingest.workers`), and the maximum for `auto`: the single writer cannot serve more. */
  ingestWorkers: 32,
  ingestWorkersByItself: 8,
  /** Threads that parse the bodies which the main thread does not parse. */
  parserThreads: 2,
  /**
   * Idle time after which a parser thread ends. With the scanner's memory for a body of 10 MiB it holds 45 MiB.
   * Starting another one takes tens of milliseconds.
   */
  parserIdleMs: 3_000,
  /** Bodies of one pipe that can wait for a parser thread. */
  parserWaitingPerPipe: 128,
  /**
   * Heap bytes of a parser thread per byte of the largest body. In the worst case, empty objects, values take 21
   * times their text, and the garbage collector needs the same amount again to move them.
   */
  parserHeapPerBodyByte: 50,
  /**
   * Webhooks, whose sender is unknown until the signature is verified: characters of a header that is read for it, and
   * signatures in it. Providers send one per secret of a rotation.
   */
  hookHeaderCharacters: 4 * KiB,
  hookSignatures: 16,
  /** Characters of a challenge, and bytes of a body that is searched for one. */
  hookChallengeCharacters: 1_000,
  hookChallengeBytes: 8 * KiB,
  /** Bytes of a body that is parsed for the id of the delivery, or because its fields are signed (Twilio). */
  hookParsedBytes: 256 * KiB,
  /** Fields of a form, and bytes of a form whose fields are read. A form with one JSON payload has the limit of bodies. */
  formFields: 1_000,
  formBytes: 1 * MiB,
  /** Prepared statements that a MySQL destination without mappings keeps, one per set of keys. */
  rowShapes: 256,
  /** Maximum time that a resolved name is cached, and the number of cached names. */
  nameCacheSeconds: 60,
  nameCacheEntries: 10_000,
} as const
