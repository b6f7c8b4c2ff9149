/** Sends the batches of a queue, one after the other. Nothing here knows whether it runs in a browser or in Node.js. */
import { type BatchStore, leaseMs, openQueue, type Queue } from './queue.ts'
import type { Client, ClientOptions, DropReason, Problem } from './types.ts'

export interface Environment {
  /**
   * Without it, the queue is in memory. `prefix` begins the names of its items. `wake` sends batches that it has found
   * later.
   */
  store?: (prefix: string, wake: () => void) => BatchStore | undefined
  batch: { maxRecords: number; maxBytes: number; maxWaitMs: number }
  /** The maximum of `batch.maxBytes`. */
  largestBatch: number
  queue: { maxRecords: number; maxBytes: number }
}

/** The parts of a client that an environment needs to react to its events. */
export interface Core {
  client: Client
  queue: Queue
  /** Sends what can be sent. Resolves with false if an attempt failed. */
  run(): Promise<boolean>
  /** Ends the pause after a failed attempt. */
  resume(): void
  /** Begins no more requests, until it is called with false. */
  suspend(isSuspended: boolean): void
  schedule(ms: number): void
  target(name: string): string
  request(name: string, body: string, init: RequestInit): Promise<Response>
  /** The batch whose request is in progress. */
  sending(): string
  hasKey: boolean
  /** Whether the last attempt failed. */
  isFailing(): boolean
}

/**
 * The daemon knows an Idempotency-Key for 24 hours: a batch that had arrived and is sent later would be stored twice.
 */
const unknownMs = 23 * 3_600_000
const longestPauseSeconds = 3_600
const longestBackoffSeconds = 60
/** The daemon accepts no larger body, unless it is configured to. */
const largestBody = 10_485_760

/** Throws a TypeError if the address is not a URL. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: small functions over shared variables, whose names the minifier shortens; it leaves the properties of a class
export function openClient(options: ClientOptions, environment: Environment): Core {
  const { url, pipe, key, onDrop, onError, timeoutMs = 30_000 } = options
  const path = pipe ? `${url.replace(/\/+$/, '')}/v1/ingest/${pipe}` : url
  const address = new URL(path, globalThis.location?.href).href
  const prefix = `pipectl ${address} `
  let stored = 0
  let droppedCount = 0
  let sendingName = ''
  let abort: AbortController | undefined
  let failures = 0
  let resumeAt = 0
  let isClosed = false
  let isSuspended = false
  let endAt = Number.POSITIVE_INFINITY
  let running: Promise<boolean> | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let timerAt = 0

  /** An error in a function of the application is its own: it stops nothing here. */
  const notify = (call: () => unknown) => {
    Promise.resolve()
      .then(call)
      .catch((error) => console.error(error))
  }
  const dropped = (records: unknown[], reason: DropReason, problem?: Problem) => {
    droppedCount += records.length
    if (onDrop) notify(() => onDrop(records, reason, problem))
  }
  const batch = { ...environment.batch, ...options.batch }
  batch.maxBytes = Math.min(batch.maxBytes, environment.largestBatch)
  const queue = openQueue({
    ...{ prefix, batch, dropped, store: environment.store?.(prefix, () => run()) },
    queue: { ...environment.queue, ...options.queue },
  })

  // Without custom headers a browser sends no preflight, except with a key.
  const target = (name: string) => `${address}?idempotency_key=${name.slice(prefix.length)}`
  const request = (name: string, body: string, init: RequestInit) =>
    fetch(target(name), {
      method: 'POST',
      body,
      headers: key ? { Authorization: `Bearer ${key}` } : {},
      credentials: 'omit',
      ...init,
    })

  /** The time until `close` has waited long enough. */
  const msLeft = () => Math.max(endAt - Date.now(), 0)
  /** One attempt. `after`: the seconds of `Retry-After`. */
  const attempt = async (name: string, body: string) => {
    const problem: Problem = { status: 0, error: 'no_response', message: '', retryMs: 0 }
    let after = 0
    abort = new AbortController()
    const { signal } = abort
    const deadline = setTimeout(() => abort?.abort(), Math.min(timeoutMs, msLeft()))
    try {
      const response = await request(name, body, { signal })
      problem.status = response.status
      problem.error = `http_${response.status}`
      after = Number(response.headers.get('Retry-After')) || 0
      problem.message = (await response.text()).slice(0, 1_000)
      const { error = problem.error, message = problem.message } = JSON.parse(problem.message)
      problem.error = String(error)
      problem.message = String(message)
    } catch (error) {
      problem.message = problem.message || String(error)
    }
    clearTimeout(deadline)
    return { problem, after }
  }
  /** The batch waits, and so do those behind it. */
  const pause = (name: string, body: string, problem: Problem, after: number) => {
    const { status } = problem
    // The key, the pipe or the page has to be changed: that takes minutes rather than seconds.
    if (status > 400 && status < 500 && status !== 408 && status !== 429) failures = Math.max(failures, 6)
    const backoff = Math.min(2 ** failures++, longestBackoffSeconds) * (0.5 + Math.random() / 2)
    problem.retryMs = Math.ceil(1000 * (Math.min(after, longestPauseSeconds) + backoff))
    resumeAt = Date.now() + problem.retryMs
    queue.save(name, (status ? resumeAt : 0) + body)
    queue.keepOpen(resumeAt)
    if (onError) notify(() => onError(problem))
  }
  const post = async (name: string) => {
    const time = queue.timeOf(name)
    const body = queue.bodyOf(name)
    // Another tab has sent it, or the item is not a batch: it is removed, so that it is not tried again and again.
    if (!body) return queue.remove(name)
    if (time < 0 && Date.now() + time > unknownMs) return queue.drop(name, 'expired')
    const count = queue.countOf(name)
    queue.save(name, Date.now() + leaseMs + body)
    sendingName = name
    await queue.sync(name)
    const { problem, after } = await attempt(name, body)
    sendingName = ''
    const { status } = problem
    if (status === 202) {
      failures = 0
      stored += count
      queue.remove(name)
    } else if (status === 400 || status === 413 || status === 422) queue.split(name, problem)
    else pause(name, body, problem, after)
  }

  const schedule = (ms: number) => {
    const at = Date.now() + Math.min(ms, leaseMs)
    if (timer && timerAt <= at) return
    clearTimeout(timer)
    timerAt = at
    timer = setTimeout(run, at - Date.now())
  }
  const isPaused = () => Date.now() < resumeAt
  const sendAll = async () => {
    clearTimeout(timer)
    timer = undefined
    while (!isPaused() && !isSuspended) {
      const name = queue.next()
      if (!name) break
      await post(name)
    }
    running = undefined
    const ms = queue.wait()
    if (ms !== undefined && !isClosed) schedule(Math.max(ms, resumeAt - Date.now(), 0))
    return !isPaused()
  }
  const run = () => {
    // It begins after this assignment, so that it can end it.
    running = running || Promise.resolve().then(sendAll)
    return running
  }

  const discard = (record: unknown, reason: DropReason) => {
    dropped([record], reason)
    return false
  }
  const send = (record: object) => {
    let text: string | undefined
    try {
      text = JSON.stringify(record)
    } catch {}
    if (text?.[0] !== '{') return discard(record, 'invalid')
    if (isClosed) return discard(record, 'closed')
    const bytes = new TextEncoder().encode(text).length + 2
    if (bytes > Math.min(options.queue?.maxBytes || environment.queue.maxBytes, largestBody))
      return discard(record, 'full')
    if (queue.add(text, bytes)) run()
    else schedule(batch.maxWaitMs)
    return true
  }
  const flush = async () => {
    // What a run in progress has not seen is sent by the next one.
    queue.seal()
    await running
    return run()
  }
  const close = async (waitMs = 10_000) => {
    isClosed = true
    endAt = Date.now() + waitMs
    queue.seal()
    const cut = setTimeout(() => abort?.abort(), waitMs)
    while (msLeft() && !(await flush())) await sleep(Math.min(msLeft(), Math.max(resumeAt - Date.now(), 0)))
    clearTimeout(cut)
    abort?.abort()
    await running
    clearTimeout(timer)
    let count = 0
    for (const name of queue.names().filter(queue.isOwn)) {
      count += queue.countOf(name)
      if (queue.isInMemory(name)) queue.drop(name, 'closed')
      // Another client of the same store can send it from now on.
      else queue.release(name)
    }
    queue.close()
    return count
  }
  const stats = () => ({
    ...{ stored, dropped: droppedCount },
    pending: queue.names().reduce((sum, name) => sum + queue.countOf(name), 0),
  })

  run()
  return {
    ...{ queue, run, schedule, target, request },
    client: { send, flush, close, stats },
    resume: () => {
      resumeAt = 0
    },
    suspend: (isWanted) => {
      isSuspended = isWanted
    },
    sending: () => sendingName,
    hasKey: !!key,
    isFailing: () => failures > 0,
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
