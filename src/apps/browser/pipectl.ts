/**
 * The script with which a page sends records, served as /v1/pipectl.js and /v1/pipectl.mjs. It has no dependencies,
 * and a test keeps it below 2 KB.
 *
 *   send ──▶ open batch ──full, a second old, page hidden──▶ batch ──202──▶ removed
 *                                                            │  ▲
 *                              408, 429, 5xx, offline … ─────┴──┘   400, 413, 422 ──▶ two halves … ──▶ the rejected record is dropped
 *
 * Each batch is an item of localStorage from its first record on. Its name ends with the batch's Idempotency-Key. Its
 * value is a time and the body, `1790000000000[{…},\n{…}]`, which does not change once it was sent. Until that time
 * the batch belongs to the tab that wrote it; afterwards any page of this origin can send it. So the next page sends
 * the batches that a closed tab has left. Two tabs that take the same batch send the same bytes under the same key,
 * and the daemon stores them once.
 *
 * A negative time is the time at which the batch was given to sendBeacon, which reports no outcome: it is sent again,
 * under its key. Without localStorage (private windows, a full quota) the items are in memory until the page closes.
 */

export interface PipectlOptions {
  /**
   * The key of a pipe that requires one. Everyone who opens the page can read it: limit it to the scope `ingest` and
   * to this pipe.
   */
  key?: string
  /**
   * Called with records that are discarded. `full`: too many records were pending, and the oldest were discarded.
   * `rejected`: the daemon rejects them permanently. `expired`: they were handed to the browser more than 23 hours
   * ago while the page closed, and it is not known whether they arrived.
   */
  onDrop?: (records: unknown[], reason: DropReason) => void
}

export type DropReason = 'full' | 'rejected' | 'expired'

export interface PipectlSender {
  /**
   * Keeps the record until the daemon has it. Returns false if it is too large to be kept, and discards it. Throws a
   * TypeError if it is not a JSON object.
   */
  send(record: object): boolean
  /** Sends pending records now instead of within a second. */
  flush(): void
}

/** Four batches fit into the 64 KiB that a browser accepts from a closing page. */
const batchBytes = 16_384
const batchRecords = 100
const batchMs = 1_000
/** The maximum that is kept for one address, by all tabs together. */
const keptChars = 1_000_000
const keptBatches = 200
/** How long a batch belongs to the tab that sends it. */
const leaseMs = 60_000
const timeoutMs = 30_000
/** How long a beacon can take before its batch is sent again. */
const beaconMs = 5_000
/**
 * The daemon knows an Idempotency-Key for 24 hours: a batch that had arrived and is sent later would be stored twice.
 */
const unknownMs = 23 * 3_600_000
const longestPauseSeconds = 3_600
const longestBackoffSeconds = 60

/** `url`: the ingest URL of the pipe, `https://…/v1/ingest/PIPE_ID`. Throws if it is not a URL. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: small functions over shared variables, whose names the minifier shortens; it leaves the properties of a class, which would not fit into the 2 KB
export function pipectl(url: string, { key, onDrop }: PipectlOptions = {}): PipectlSender {
  const address = new URL(url, location.href).href
  const prefix = `pipectl ${address} `
  const memory: Record<string, string> = {}
  /** The batch to which records are added. Empty if there is none. */
  let open = ''
  let openBody = ''
  let openBytes = 0
  let openRecords = 0
  /** The batch whose request is in progress. */
  let sending = ''
  let failures = 0
  let resumeAt = 0
  let lastId = 0
  let isLeaving = false
  let timer: ReturnType<typeof setTimeout> | 0 = 0

  const onDisk = <T>(use: (storage: Storage) => T): T | undefined => {
    try {
      return use(localStorage)
    } catch {}
  }
  const store = (name: string, value: string) =>
    onDisk((disk) => {
      disk.setItem(name, value)
      return delete memory[name]
    })
  const save = (name: string, value: string) => {
    if (!store(name, value)) memory[name] = value
  }
  const read = (name: string) => memory[name] || onDisk((disk) => disk.getItem(name)) || ''
  const remove = (name: string) => {
    delete memory[name]
    onDisk((disk) => disk.removeItem(name))
  }
  /** The names of all batches, oldest first. */
  const names = () =>
    [...new Set(Object.keys(memory).concat(onDisk((disk) => Object.keys(disk)) || []))]
      .filter((name) => name.startsWith(prefix))
      .sort()
  /** An item that another script wrote under such a name has no time: it is sent immediately. */
  const timeOf = (name: string) => Number.parseInt(read(name), 10) || 0
  const bodyOf = (name: string) => read(name).replace(/^[^[]*/, '')
  const waitOf = (name: string) => {
    const time = timeOf(name)
    return (time < 0 ? beaconMs - time : time) - Date.now()
  }
  /** This script never writes a time so far ahead, so the clock was set back. */
  const isFree = (name: string) => name !== open && (waitOf(name) <= 0 || waitOf(name) > 7_200_000)

  const drop = (name: string, reason: DropReason, body = bodyOf(name)) => {
    remove(name)
    let records: unknown[] = []
    try {
      records = JSON.parse(body)
    } catch {}
    if (onDrop) setTimeout(() => onDrop(records, reason))
  }
  const split = (name: string, body: string) => {
    const texts = body.slice(1, -1).split(',\n')
    if (texts.length < 2) return drop(name, 'rejected', body)
    const half = texts.length >> 1
    // The names are derived from the name of the batch: a page that closes in between repeats the split, and nothing
    // is stored twice.
    save(`${name}0`, `0[${texts.slice(0, half).join(',\n')}]`)
    save(`${name}1`, `0[${texts.slice(half).join(',\n')}]`)
    remove(name)
  }

  const leaseOpen = () => Math.max(Date.now(), resumeAt) + leaseMs
  /** Returns false if the item in localStorage cannot grow. It then stays as it is. */
  const grow = (value: string) => {
    if (!memory[open]) return store(open, value)
    save(open, value)
    return true
  }
  const seal = () => {
    if (open) save(open, 0 + openBody)
    open = ''
  }
  /** Returns false if the record does not fit into the open batch, or if there is none. */
  const add = (text: string, bytes: number) => {
    const grown = `${openBody.slice(0, -1)},\n${text}]`
    const fits = open && openRecords < batchRecords && openBytes + bytes <= batchBytes
    if (!fits || !grow(leaseOpen() + grown)) return false
    openBody = grown
    openBytes += bytes
    openRecords++
    return true
  }
  const begin = (text: string, bytes: number) => {
    seal()
    trim()
    lastId = Math.max(lastId + 1, Date.now())
    open = `${prefix}${lastId.toString(36)}-${crypto.getRandomValues(new Uint32Array(4)).join('')}`
    openBody = `[${text}]`
    openBytes = bytes
    openRecords = 1
    save(open, leaseOpen() + openBody)
  }
  const trim = () => {
    let chars = keptChars
    let batches = keptBatches
    for (const name of names().reverse()) {
      chars -= read(name).length
      if ((--batches < 0 || chars < 0) && isFree(name)) drop(name, 'full')
    }
  }

  // Without custom headers there is no preflight, except with a key.
  const target = (name: string) => `${address}?idempotency_key=${name.slice(prefix.length)}`
  const request = (name: string, body: string, init: RequestInit) =>
    fetch(target(name), {
      method: 'POST',
      body,
      headers: key ? { Authorization: `Bearer ${key}` } : {},
      credentials: 'omit',
      ...init,
    })

  /** `status`: 0 without a response. `after`: the seconds of `Retry-After`. */
  const pause = (name: string, body: string, status: number, after: number) => {
    const backoff = Math.min(2 ** failures++, longestBackoffSeconds) * (0.5 + Math.random() / 2)
    resumeAt = Date.now() + Math.ceil(1000 * (Math.min(after, longestPauseSeconds) + backoff))
    save(name, (status ? resumeAt : 0) + body)
    if (open) save(open, leaseOpen() + openBody)
  }
  const post = async (name: string) => {
    const time = timeOf(name)
    const body = bodyOf(name)
    // Another tab has sent it, or the item is not a batch: it is removed, so that it is not tried again and again.
    if (!body) return remove(name)
    if (time < 0 && Date.now() + time > unknownMs) return drop(name, 'expired', body)
    save(name, Date.now() + leaseMs + body)
    sending = name
    const abort = new AbortController()
    const deadline = setTimeout(() => abort.abort(), timeoutMs)
    let status = 0
    let after = 0
    try {
      const response = await request(name, body, { signal: abort.signal })
      status = response.status
      after = Number(response.headers.get('Retry-After')) || 0
    } catch {}
    clearTimeout(deadline)
    sending = ''
    if (status === 202) {
      failures = 0
      remove(name)
    } else if (status === 400 || status === 413 || status === 422) split(name, body)
    else pause(name, body, status, after)
  }

  const schedule = (ms: number) => {
    timer = timer || setTimeout(flush, Math.min(ms, leaseMs))
  }
  const flush = async (): Promise<void> => {
    clearTimeout(timer)
    timer = 0
    if (sending) return
    if (Date.now() < resumeAt) return schedule(resumeAt - Date.now())
    if (!names().some(isFree)) seal()
    const next = names().find(isFree)
    if (next) return post(next).then(flush)
    const waits = names().map(waitOf)
    if (waits.length) schedule(Math.min(...waits))
  }

  const handOver = (name: string) => {
    const body = bodyOf(name)
    const release = () => save(name, 0 + body)
    release()
    // After a failed request a beacon would fail too, without reporting it.
    if (failures || !navigator.onLine) return
    if (key) request(name, body, { keepalive: true }).catch(release)
    else if (!navigator.sendBeacon?.(target(name), body)) return
    save(name, -Date.now() + body)
  }
  /**
   * The page can close now: hands as many batches as possible to the browser, and leaves all of them to the next
   * page.
   */
  const hide = () => {
    isLeaving = true
    setTimeout(() => {
      isLeaving = false
    })
    seal()
    for (const name of names()) if (timeOf(name) >= 0 && (name === sending || isFree(name))) handOver(name)
    schedule(beaconMs)
  }
  const look = () => {
    if (document.visibilityState === 'hidden') hide()
    else flush()
  }

  document.addEventListener('visibilitychange', look)
  document.addEventListener('freeze', hide)
  addEventListener('pagehide', hide)
  addEventListener('pageshow', look)
  addEventListener('online', () => {
    resumeAt = 0
    flush()
  })
  trim()
  flush()

  return {
    send: (record) => {
      const text = JSON.stringify(record)
      if (!/^{/.test(text)) throw new TypeError('pipectl: a record is an object')
      const bytes = new Blob([text]).size + 2
      if (bytes > keptChars) {
        if (onDrop) setTimeout(() => onDrop([record], 'full'))
        return false
      }
      if (!add(text, bytes)) {
        const wasOpen = open
        begin(text, bytes)
        if (wasOpen) flush()
      }
      // While the page closes, a later listener of the same event can send this record.
      if (isLeaving) hide()
      else schedule(batchMs)
      return true
    },
    flush,
  }
}
