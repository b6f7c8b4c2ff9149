/**
 * The limits of one request, one message, one destination and one unknown client, in one file, each with its unit and
 * its reason. Where an operator may need another value, the limit is the default of the setting that is named with
 * it; the others are fixed.
 */
const KiB = 1024
const MiB = 1024 * KiB

export const resourceLimits = {
  /**
   * The history of one lane: with a batch every second, all of 24 h. Where the oldest rows are cut, only the state of
   * a message is known.
   */
  historyRowsPerLane: 100_000,
  /**
   * The delivery attempts that are kept of one lane: of each outcome the newest, and for how long. Failures are what
   * somebody looks for days later, and are rarer.
   */
  deliveredAttemptsPerLane: 700,
  deliveredAttemptHours: 24,
  failedAttemptsPerLane: 300,
  failedAttemptHours: 7 * 24,
  /** One attempt: the text of a response's body, and the characters of all headers of one side. */
  attemptExcerptBytes: 1 * KiB,
  attemptHeaderCharacters: 2_000,
  /** The records of a message that is shown: how many of its first, and the size of their text together. */
  shownRecords: 20,
  shownRecordBytes: 4 * MiB,
  messagesPerPage: 200,
  /** Live tails: of a workspace, of all; the text of one step, and of a record, beyond which it is left out. */
  tailsPerWorkspace: 8,
  tails: 64,
  tailRunBytes: 1 * MiB,
  tailRecordBytes: 256 * KiB,
  /** The runs of one lane in one response. A page of messages has no more. */
  shownHistoryRuns: 250,
  /** A row group of a Parquet object, which is encoded at once and is in memory: bytes of values, and cells. */
  parquetGroupBytes: 8 * MiB,
  parquetGroupCells: 1_000_000,
  /** The bytes of records that are copied to the Parquet thread at once, or one record. */
  parquetPortionBytes: 1 * MiB,
  /** Young objects of the Parquet thread, in MiB: a row group becomes old anyway. */
  parquetYoungHeapMiB: 16,
  /**
   * Columns of a Parquet object, each with room of its own in every row group; and the number of those that take the
   * same key, which bounds the growth of the object.
   */
  parquetColumns: 256,
  parquetColumnsOfKey: 4,
  /** A number, or text for a numeric column, longer than this is no value of such a column. */
  numericTextCharacters: 1_000,
  /**
   * Heap that a thread's young objects may take, in MiB: V8 allows 48 by itself, fills it before it looks for garbage, and
   * keeps it.
   */
  deliveryYoungHeapMiB: 24,
  driverYoungHeapMiB: 6,
  /** The bytes that are read from a destination during one attempt; beyond it the connection is dropped. */
  destinationReadBytes: 8 * MiB,
  /** Interim responses (100 Continue, 103 Early Hints) before one response of an HTTP endpoint. */
  interimResponseBytes: 64 * KiB,
  /**
   * Records of one `_bulk` request: the response has an item for each, 300 bytes of a stored one and twice that of a refused one,
   * and all of it must fit into `destinationReadBytes`.
   */
  bulkRecords: 5_000,
  /** One response of an object store: what it says of an upload or an error is some KiB of XML. */
  storeResponseBytes: 64 * KiB,
  /** The limit of a destination's own error text, as it is stored, logged and shown. */
  errorMessageBytes: 1_024,
  errorCodeCharacters: 64,
  /** Characters of a refused record's value, where a destination names it: enough to recognise it. */
  rejectedValueCharacters: 200,
  /** Refused records that a driver hands to its lane in one call. */
  parkedAtOnce: 1_000,
  /**
   * The columns that a test of a database reports: more than a person maps. A longer name is not the name of a
   * column.
   */
  shownTableColumns: 500,
  tableColumnCharacters: 128,
  /**
   * The sample from which a table is proposed: the number of the newest records, their bytes, and the keys of all of
   * them together. A sample that is sent along must leave room in a management body, which has 1 MiB.
   */
  inferredRecords: 1_000,
  inferredBytes: 4 * MiB,
  inferredKeys: 1_000,
  inferredSampleCharacters: 900_000,
  /**
   * Trying a transform: how long all records may take, how many trials run at once, the bytes and records that go to the thread together, and
   * the text of a record before and after, beyond which it is not shown.
   */
  trialMs: 5_000,
  trialsAtOnce: 2,
  trialPortionBytes: 1 * MiB,
  trialPortionRecords: 100,
  trialRecordBytes: 256 * KiB,
  /** Columns of a proposed table. InnoDB's page takes about 190 of the largest type. */
  inferredColumns: 200,
  inferredMysqlColumns: 150,
  /**
   * Records of one request (setting `ingest.max_records_per_request`). 10 KB of gzip can hold 3.5 million records `{}`,
   * whose enrichment takes gigabytes; above some thousands, larger requests make nothing faster.
   */
  recordsPerRequest: 50_000,
  /**
   * Keys of one record, those of nested objects included (setting `ingest.max_keys_per_record`). No table has that many
   * columns, and everything that walks a record pays for each of them.
   */
  keysPerRecord: 10_000,
  /**
   * Bytes that one message may have in the buffer, enrichment included. SQLite takes no value over 1,000,000,000 bytes,
   * and every reader of a message holds the whole of it in memory.
   */
  storedBytesPerMessage: 64 * MiB,
  /**
   * Bytes of messages that are written and fsynced at once. A larger message goes alone. Who comes meanwhile waits for as
   * much; above some MiB, larger ones make nothing faster.
   */
  frameBytes: 4 * MiB,
  /**
   * Bytes of a decoded body up to which it is parsed on the main thread: it takes less time there than the way to
   * another thread and back. Larger ones would keep every other client waiting.
   */
  mainThreadBodyBytes: 256 * KiB,
  /** Values that JSON.parse makes of a body on the main thread at most: a small body can hold a lot of tiny ones. */
  mainThreadValues: 15_000,
  /**
   * Memory of the scanner on the main thread, which keeps the memory that it once took: 64 KiB of its own, a body
   * that is parsed there, and four times as much for its stored form. Larger bodies go by JSON.parse.
   */
  mainScannerBytes: (64 + 5 * 256) * KiB,
  /** The same in each parser thread: the largest body of the default settings, and what is stored of it. */
  parserScannerBytes: 64 * MiB,
  /** Bytes of a body that counts as small: the last part of the memory for bodies is kept for those. */
  smallBodyBytes: 64 * KiB,
  /** Bodies that are decompressed at the same time: as many as the thread pool has threads. */
  decodersAtOnce: 4,
  /** Bytes that a body may decompress to whatever it was made from. */
  freelyDecodedBytes: MiB,
  /**
   * Times its own size that a body may decompress to beyond that. JSON of like records reaches about 50; only what is made
   * to be a bomb comes near the 1,032 of gzip.
   */
  maxDecodedPerByte: 200,
  /**
   * Pieces (chunks of the transfer encoding) of a body that may be as small as they like, and the bytes that the pieces
   * of a body must have on average beyond that. Each costs main about a microsecond, and thousands of them are one read
   * of the socket.
   */
  tinyPieces: 20_000,
  averagePieceBytes: 16,
  /** Bytes of a request's headers together, as nginx and others have it. */
  headBytes: 8 * KiB,
  /** A request's headers. No client sends as many; uWebSockets gives up at fifty, without a word. */
  headers: 100,
  /**
   * Bytes and values, nested ones included, of the body of a management request: several times what a valid one has. Reading and
   * explaining a body takes time of the main thread, which serves every workspace. Further down: the operations that take more.
   */
  managementBodyBytes: 64 * KiB,
  managementBodyValues: 1_000,
  /** A destination: 1,600 columns with five fields each, a config with certificates, a transform. */
  destinationBodyBytes: MiB,
  destinationBodyValues: 15_000,
  /** A transform of 8,000 characters, and records as one text. */
  sampleBodyBytes: MiB,
  sampleBodyValues: 5_000,
  /** Parked records that are edited. */
  replayBodyBytes: MiB,
  replayBodyValues: 20_000,
  /** Signing in, setup links and changes of a password: who sends the first two need not be known. */
  formBodyBytes: 4 * KiB,
  /**
   * A destination's config as it is stored: bytes as JSON, and keys. It is read into memory with its lane and shown with its pipe. A
   * larger one of an earlier version still works, and can only become smaller.
   */
  storedConfigBytes: 64 * KiB,
  storedConfigKeys: 100,
  /**
   * Time of the main thread that the keys of one workspace may take with management requests: milliseconds per second, as many at
   * once after a pause, and what a request counts as at least. A request takes 1 to 5 ms, so that a script which sends one after the
   * other reaches the limit after some 6,000 requests.
   */
  managementMsPerSecond: 300,
  managementMsAtOnce: 20_000,
  managementMsPerRequest: 1,
  /** The number of fields whose errors are explained; explaining costs more than finding. */
  explainedFields: 100,
  /** File descriptors that connections of clients leave to everything else: files, destinations, what comes next. */
  descriptorsKept: 256,
  /**
   * The limits of one workspace (settings `workspace.max_…`). Each item takes memory for as long as the daemon runs,
   * a lane about 170 KiB, and lists show them all.
   */
  pipesPerWorkspace: 1_000,
  destinationsPerWorkspace: 1_000,
  apiKeysPerWorkspace: 1_000,
  originsPerWorkspace: 10_000,
  /** The most pipes that one key is limited to. A key for more is for all pipes, or several keys are needed. */
  pipesPerApiKey: 100,
  /**
   * The audit log: for how many days, how many entries of a workspace (the oldest goes with the new one), bytes of the state
   * before and after, and how many are removed at once.
   */
  auditDays: 400,
  auditEntriesPerWorkspace: 100_000,
  auditStateBytes: 16 * KiB,
  auditPrunedAtOnce: 500,
  /**
   * Alerts of a workspace that are not sent yet; while there are as many, further ones wait until there is room. How long each is
   * tried, how many of all workspaces are on their way at once, and how long a receiver may take.
   */
  alertsPerWorkspace: 100,
  alertSeconds: 3_600,
  alertsAtOnce: 32,
  alertTimeoutMs: 10_000,
  /** The minimum interval between two alerts about the same event of a lane. */
  alertEverySeconds: 300,
  /** How long a key that is being replaced goes on working, in seconds: a week to find every place that has it. */
  apiKeyOverlapDefaultSeconds: 7 * 24 * 3_600,
  apiKeyOverlapSeconds: 90 * 24 * 3_600,
  /** Deleted pipes that are still remembered, because the buffer holds messages of them. */
  deletedPipesPerWorkspace: 10_000,
  /**
   * Rows of revoked keys that a workspace keeps, and for how many days: so long lists show them. Who rotates a key every two
   * hours finds all of them for as many days.
   */
  revokedApiKeysPerWorkspace: 1_100,
  revokedApiKeyDays: 90,
  /** The users of a workspace, its unused setup links, and the sessions of one user: a further one ends the oldest. */
  usersPerWorkspace: 100,
  setupLinksPerWorkspace: 20,
  sessionsPerUser: 20,
  /** The list of files of a backup, which is read into memory before anything of the backup is trusted: 150 bytes a file. */
  manifestBytes: 16 * MiB,
  /** A session ends after so long without a request, and so long after it began whatever happens. */
  sessionIdleSeconds: 30 * 60,
  sessionSeconds: 12 * 3_600,
  setupLinkSeconds: 24 * 3_600,
  /**
   * Failed attempts to sign in during `signInWindowSeconds`: to one account from one address (IPv6: /64 network) or from one
   * browser that has signed in to it before; from one address; and to one account from all addresses, so that many addresses
   * together guess no more than a weak password's worth (NIST SP 800-63B asks for at most 100).
   */
  signInsPerAccount: 10,
  signInsPerAddress: 30,
  signInsPerAccountAnywhere: 100,
  signInWindowSeconds: 15 * 60,
  /** How long a browser keeps the cookie that says that its user has signed in there before. */
  knownBrowserSeconds: 180 * 86_400,
  /**
   * Passwords that wait to be hashed. One is at a time: each takes 128 MiB, half a second of a core and one of the four
   * threads that also decompress bodies.
   */
  waitingPasswords: 16,
  /** Requests of one session: the rate per second, and the burst after a pause. */
  sessionRequestsPerSecond: 20,
  sessionRequestsAtOnce: 100,
  /** Pulls of one workspace at a time: those that wait and those whose response is not read yet. */
  pullsPerWorkspace: 32,
  /** Bytes of messages in responses to pulls that are not read yet: of one workspace, and of all. */
  pulledBytesPerWorkspace: 32 * MiB,
  pulledBytes: 128 * MiB,
  /**
   * How much of such a response a client must read in this time, or its connection is closed and the message is there for
   * the next pull: as slow as uploads may be, 16 KiB a second.
   */
  readWindowMs: 30_000,
  readWindowBytes: 480 * KiB,
  /** Threads of ingest (setting `ingest.workers`), and how many `auto` takes at most: the one writer serves no more. */
  ingestWorkers: 32,
  ingestWorkersByItself: 8,
  /** Threads that parse what the main thread does not. */
  parserThreads: 2,
  /**
   * How long such a thread is kept without a body. With the scanner's memory for a body of 10 MiB it has 45 MiB; starting
   * another takes some tens of ms.
   */
  parserIdleMs: 3_000,
  /** Bodies of one pipe that may wait for such a thread. */
  parserWaitingPerPipe: 128,
  /**
   * Bytes of heap that such a thread may have for each byte of the largest body. The worst there is, empty objects, take
   * 21 times their text, and the collector needs as much again to move them.
   */
  parserHeapPerBodyByte: 50,
  /** Sets of keys whose statements a MySQL destination without mappings keeps. */
  rowShapes: 256,
  /** How long an address of a name is believed at most, and of how many names. */
  nameCacheSeconds: 60,
  nameCacheEntries: 10_000,
} as const
