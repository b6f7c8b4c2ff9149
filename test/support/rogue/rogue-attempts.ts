/**
 * Attempts at rogue servers, and what must hold for each of them whatever the server does:
 *
 *   the attempt   ends by itself or soon after its signal; delivered, or with a DeliveryError that can be shown
 *   the reading   is bounded
 *   the next one  is delivered as soon as the server is an honest one, by the same driver
 *   the end       no connection is left over once the driver is closed
 *
 * `brokenRules` says which of these did not hold, so that a test can show that it would notice.
 */
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { type Batch, DeliveryError, type DestinationDriver } from '../../../src/destinations/driver.ts'
import { scaled } from '../../support/scale.ts'
import { until } from '../until.ts'
import { type ClientSockets, watchClientSockets } from './client-sockets.ts'
import { type Fault, type HonestSession, randomFault, seeded, startRogue } from './rogue-server.ts'

export interface RogueTarget {
  session(): HonestSession
  open(port: number): DestinationDriver
  batch: Batch
  /** Where the server speaks TLS; 127.0.0.1 in clear where not given. */
  host?: string
  /** How long a server may be silent before the attempt is ended from outside, as a lane's deadline would. */
  patienceMs?: number
  /** How long connections may take to be closed. */
  closingMs?: number
  /** Texts that no error may hold, not even their beginning. */
  secrets?: readonly string[]
}

interface Assertions {
  ok(condition: unknown, name: string): unknown
}

/** Everything that reaches the process from now on: nothing may, not even after the attempt that caused it. */
export function watchForUncaught(): unknown[] {
  const uncaught: unknown[] = []
  const note = (error: unknown) => uncaught.push(error)
  process.on('uncaughtException', note).on('unhandledRejection', note)
  return uncaught
}

const clientSockets: ClientSockets = watchClientSockets()

const patienceMs = 1_000
/** Half of the random faults end in silence. */
const shortPatienceMs = 300
/** Random faults of a protocol, times `--scale`. */
const randomFaults = scaled(50)
/** The time that an attempt may take after its signal, on a machine that is very busy. */
const settlingMs = 60_000
/** Read beyond the limit before it is noticed: what the last chunks of the sockets hold. */
const readSlackBytes = 1024 * 1024

/** `delivered`, or the error. Closes the driver. */
export async function attempt(
  driver: DestinationDriver,
  batch: Batch,
  limitMs = patienceMs,
): Promise<unknown> {
  try {
    return await deliver(driver, batch, limitMs)
  } finally {
    await driver.close()
  }
}

async function deliver(driver: DestinationDriver, batch: Batch, limitMs: number): Promise<unknown> {
  let watchdog: NodeJS.Timeout | undefined
  const hung = new Promise((resolve) => {
    watchdog = setTimeout(() => resolve('the attempt did not end'), limitMs + settlingMs)
  })
  const delivery = driver.deliver(batch, AbortSignal.timeout(limitMs)).then(
    () => 'delivered',
    (error: unknown) => error,
  )
  const outcome = await Promise.race([delivery, hung])
  clearTimeout(watchdog)
  return outcome
}

export async function checkFaults(
  t: Assertions,
  target: RogueTarget,
  step: number,
  stepName: string,
  faults: Record<string, Fault>,
): Promise<void> {
  await inParallel(Object.entries(faults), 16, ([name, fault]) =>
    checkFault(t, target, step, fault, target.patienceMs ?? patienceMs, `${stepName}: ${name}`),
  )
}

export async function checkRandomFaults(t: Assertions, target: RogueTarget, steps: number): Promise<void> {
  const seeds = Array.from({ length: randomFaults }, (_, seed) => seed)
  await inParallel(seeds, 64, (seed) => {
    const random = seeded(seed)
    return checkFault(t, target, random(steps), randomFault(random), shortPatienceMs, `seed ${seed}`)
  })
}

async function checkFault(
  t: Assertions,
  target: RogueTarget,
  step: number,
  fault: Fault,
  limitMs: number,
  name: string,
): Promise<void> {
  const broken = await brokenRules(target, step, fault, limitMs)
  t.ok(broken.length === 0, `${name}${broken.map((rule) => `; ${rule}`).join('')}`)
}

/** The rules that were broken, each in words; empty if none. */
export async function brokenRules(
  { session, open, batch, host, closingMs = settlingMs, secrets = [] }: RogueTarget,
  step: number,
  fault: Fault,
  limitMs = patienceMs,
): Promise<string[]> {
  const rogue = await startRogue(session, step, fault, host === undefined ? {} : { host, tls: true })
  const { port } = rogue
  const driver = open(port)
  const outcome = await deliver(driver, batch, limitMs)
  const broken = outcome === 'delivered' ? [] : faultsOfError(outcome, secrets)
  if (clientSockets.bytesRead(port) > resourceLimits.destinationReadBytes + readSlackBytes)
    broken.push(`${clientSockets.bytesRead(port)} bytes were read`)
  rogue.heal()
  const failure = await failureOfNext(driver, batch)
  if (failure !== null) broken.push(`the next attempts: ${shown(failure)}`)
  await driver.close()
  const isClosed = () => rogue.open() === 0 && clientSockets.open(port) === 0
  await until('all connections are closed', isClosed, { timeoutMs: closingMs, everyMs: 5 }).catch(() =>
    broken.push('a connection is left over'),
  )
  await rogue.stop()
  return broken
}

/** As a lane does: what the rogue has left in a connection may cost some attempts. Null once one is delivered. */
async function failureOfNext(driver: DestinationDriver, batch: Batch): Promise<unknown> {
  let outcome: unknown
  const isDelivered = async () => {
    outcome = await deliver(driver, batch, settlingMs)
    return outcome === 'delivered'
  }
  await until('delivered', isDelivered, { timeoutMs: settlingMs / 3 }).catch(() => {})
  return outcome === 'delivered' ? null : outcome
}

/** Checks an attempt at a server that never recovers, or a check: delivered, or an error that can be shown. */
export function checkPresentable(
  t: Assertions,
  name: string,
  outcome: unknown,
  secrets: readonly string[],
): void {
  const faults = outcome === 'delivered' ? [] : faultsOfError(outcome, secrets)
  t.ok(faults.length === 0, `${name}${faults.map((fault) => `; ${fault}`).join('')}`)
}

function faultsOfError(outcome: unknown, secrets: readonly string[]): string[] {
  if (!(outcome instanceof DeliveryError)) return [`no DeliveryError: ${shown(outcome)}`]
  const { code, message, retryAfterMs = 0 } = outcome
  const faults = faultsOfText(`${code} ${message}`, secrets)
  if (!['transient', 'permanent'].includes(outcome.class)) faults.push(`class ${outcome.class}`)
  if (!/^[^\s]{1,64}$/.test(code) || code === 'internal') faults.push(`code ${code}`)
  if (!Number.isFinite(retryAfterMs)) faults.push(`retry after ${retryAfterMs} ms`)
  return faults
}

/** A text that people see: short, on one line, without what acts on a terminal, without secrets. */
export function faultsOfText(text: string, secrets: readonly string[]): string[] {
  const { errorMessageBytes, errorCodeCharacters } = resourceLimits
  const faults: string[] = []
  if (text.trim() === '') faults.push('no text')
  if (Buffer.byteLength(text) > errorMessageBytes + errorCodeCharacters + 1) faults.push('a long text')
  if (/[\p{C}\p{Zl}\p{Zp}]/u.test(text)) faults.push(`unprintable: ${JSON.stringify(text)}`)
  for (const secret of secrets) if (text.includes(secret.slice(0, 8))) faults.push(`${secret} in: ${text}`)
  return faults
}

function shown(outcome: unknown): string {
  return outcome instanceof Error ? `${outcome.stack}` : String(outcome)
}

async function inParallel<T>(
  items: readonly T[],
  count: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = [...items]
  const worker = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: count }, worker))
}
