/**
 * HTTP endpoint driver: a batch is one request (`json_array`, `ndjson`) or one request per record (`json_object`).
 *
 *   json_object   record 1 ─┐  up to `concurrency` requests under way; the first failure starts no more of them
 *                 record 2 ─┼▶ endpoint     stored = the records from the start without a gap: the next attempt
 *                 record 3 ─┘               goes on after them, and repeats those stored behind the gap
 *
 * A record that is sent again has the same `webhook-id` again. Where the lane sets records aside, one that is refused
 * counts as stored once it is kept, and the others go on.
 */
import type { AttemptProgress, Batch, DriverModule, HttpEndpointSpec, RejectedRecord } from '../driver.ts'
import { DeliveryError } from '../driver.ts'
import { refusalOf, type SetAside, setAsideAll } from '../set-aside.ts'
import { batchBody, compress, contentType, type RequestBody, recordBodies, webhookHeaders } from './body.ts'
import { checkHttpEndpoint } from './check.ts'
import { concernsEndpoint, responseError } from './errors.ts'
import { aborted, type Endpoint, openEndpoint } from './request.ts'

export const httpEndpoint: DriverModule<HttpEndpointSpec> = {
  open(spec, settings) {
    const endpoint = openEndpoint(spec, settings)
    return {
      deliver: (batch, signal, progress) => deliver(endpoint, spec, batch, signal, progress),
      close: () => endpoint.close(),
    }
  },
  check: checkHttpEndpoint,
}

async function deliver(
  endpoint: Endpoint,
  spec: HttpEndpointSpec,
  batch: Batch,
  signal: AbortSignal,
  progress: AttemptProgress | undefined,
): Promise<void> {
  const { body_format: format } = spec.config
  const send = (body: RequestBody) => sendBody(endpoint, spec, body, signal)
  if (format !== 'json_object') return await send(batchBody(batch, format))
  await sendRecords(spec, batch, send, signal, progress)
}

/** Rejects with the error of the first record that is not stored, and with how many before it are. */
async function sendRecords(
  spec: HttpEndpointSpec,
  batch: Batch,
  send: (body: RequestBody) => Promise<void>,
  signal: AbortSignal,
  progress: AttemptProgress | undefined,
): Promise<void> {
  const bodies = recordBodies(batch, spec.destinationId)
  /** Places of records that are stored behind one that is not yet. */
  const ahead = new Set<number>()
  const failures: { place: number; error: unknown }[] = []
  let stored = batch.recordOffset
  let begun = batch.recordOffset
  let next = batch.recordOffset
  const isOver = () => failures.length > 0 || refused.hasFailed || signal.aborted
  const isDone = (place: number) => {
    ahead.add(place)
    while (ahead.delete(stored)) stored += 1
    progress?.stored(stored)
  }
  const refused = new RefusedRecords(progress?.setAside, isDone)

  const worker = async () => {
    while (begun < batch.recordCount && !isOver()) {
      begun += 1
      if (begun > batch.recordOffset + 1) await progress?.beforeRequest()
      if (isOver()) return
      // Place and body are taken together: who passes the gate first sends the earlier record.
      const place = next++
      const { value: body } = bodies.next()
      if (body === undefined) return
      try {
        await send(body)
        isDone(place)
      } catch (error) {
        if (!refused.takes(place, error)) failures.push({ place, error })
      }
    }
  }
  await Promise.all(Array.from({ length: spec.concurrency ?? 1 }, worker))
  await refused.kept().catch((error: unknown) => failures.push({ place: stored, error }))
  const [first] = failures.sort((one, other) => one.place - other.place)
  if (first?.error instanceof DeliveryError) throw first.error.with({ storedRecords: stored })
  if (first !== undefined) throw first.error
  if (signal.aborted && stored < batch.recordCount) throw aborted().with({ storedRecords: stored })
}

/**
 * Records that are set aside while others are sent: those that were refused during one call go together in the next. Each
 * counts as stored once it is kept, not before: until then it would be sent again.
 */
class RefusedRecords {
  readonly #setAside: SetAside | undefined
  readonly #onKept: (place: number) => void
  #waiting: { place: number; rejected: RejectedRecord }[] = []
  #keeping: Promise<void> | null = null
  /** Some could not be kept. */
  hasFailed = false

  constructor(setAside: SetAside | undefined, onKept: (place: number) => void) {
    this.#setAside = setAside
    this.#onKept = onKept
  }

  /** True: the error is of this record alone, which is set aside. */
  takes(place: number, error: unknown): boolean {
    const rejected = error instanceof DeliveryError ? error.rejected : undefined
    if (this.#setAside === undefined || rejected === undefined) return false
    this.#waiting.push({ place, rejected })
    this.#keeping ??= this.#keep(this.#setAside)
    // Whoever waits for all of them is told.
    this.#keeping.catch(() => {
      this.hasFailed = true
    })
    return true
  }

  /** Rejects when some could not be kept. */
  async kept(): Promise<void> {
    await this.#keeping
  }

  async #keep(setAside: SetAside): Promise<void> {
    while (this.#waiting.length > 0) {
      const taken = this.#waiting
      this.#waiting = []
      await setAsideAll(
        setAside,
        taken.map(({ rejected }) => rejected),
      )
      for (const { place } of taken) this.#onKept(place)
    }
    this.#keeping = null
  }
}

async function sendBody(
  endpoint: Endpoint,
  { config }: HttpEndpointSpec,
  body: RequestBody,
  signal: AbortSignal,
): Promise<void> {
  const isGzip = config.compression === 'gzip'
  const sent = isGzip ? await compress(body.body) : body.body
  const headers = {
    'content-type': contentType(config.body_format),
    ...(isGzip ? { 'content-encoding': 'gzip' } : {}),
    ...webhookHeaders(body, Date.now(), config.signing_secret),
  }
  const request = { method: config.method, headers, body: sent }
  const response = await endpoint.send(request, signal).catch((error: unknown) => {
    // The egress policy rejects the endpoint, not a message.
    const isDenied = error instanceof DeliveryError && error.class === 'permanent'
    throw isDenied ? error.with({ failedSeq: body.firstSeq }) : error
  })
  const failedSeq = concernsEndpoint(response.status) ? body.firstSeq : body.only?.seq
  const error = responseError(response, Date.now(), { secrets: endpoint.secrets, failedSeq })
  if (error === null) return
  if (error.fault !== 'records' || body.only === undefined) throw error
  throw error.with({ rejected: refusalOf(error, body.only) })
}
