/**
 * The shutdown steps, in the only order that loses nothing, each with a deadline. A part adds its step when it is
 * opened. Steps of parts that were never opened are left out, so that a failed start closes exactly the parts that it
 * opened.
 *
 * Every step runs, even if earlier ones failed. A step that fails or exceeds its deadline is logged and counted, and
 * the next one starts. Lanes are saved and the buffer is closed even if the disk is full.
 */
import { endsWithin } from '../platform/deadline.ts'
import type { Logger } from '../platform/log.ts'

/** In order, each with its deadline. The sum is below TimeoutStopSec of the systemd unit; a test compares them. */
export const shutdownDeadlinesMs = {
  'stop accepting': 1_000,
  'end waiting pulls': 2_000,
  'end tails': 1_000,
  'end queries': 500,
  /** Records whose fsync is in progress still get their 202 or 503. */
  'drain ingest': 10_000,
  'finish responses': 2_000,
  /** The stage of a job on personal data is repeated after the next start. */
  'end privacy jobs': 1_000,
  /** Alerts in flight are sent again after the next start. */
  'close alerts': 2_000,
  'save usage': 5_000,
  'close metrics': 1_000,
  'close connections': 1_000,
  'close certificates': 500,
  'close geolocation': 1_000,
  'close parsers': 1_000,
  'close history': 2_000,
  /** Running attempts have 10 s. Then they are aborted and every lane is saved: delivery-proxy.ts. */
  'close delivery': 22_000,
  /** By now, other nodes send no more requests about lanes. */
  'close node requests': 2_000,
  'close buffer': 10_000,
  /** By now, its pipes are handed over. */
  'leave cluster': 2_000,
  'close metadata': 2_000,
  /** Sends what the other steps have saved. If the bucket is away, the next start sends it. */
  'close replica': 13_000,
  /** Recreates the ballast if it was released. No later step of the daemon needs space. */
  'hold disk space': 3_000,
  /** From here on, the run counts as stopped normally. */
  'note the stop': 1_000,
  'release data directory': 1_000,
}
export type ShutdownStep = keyof typeof shutdownDeadlinesMs

type Run = () => unknown

export class ShutdownSteps {
  readonly #log: Logger
  readonly #deadlinesMs: Record<ShutdownStep, number>
  readonly #runs = new Map<ShutdownStep, Run>()
  #isRunning = false

  constructor(log: Logger, deadlinesMs: Record<ShutdownStep, number> = shutdownDeadlinesMs) {
    this.#log = log
    this.#deadlinesMs = deadlinesMs
  }

  /** While this is true, a part that dies must not end the process, because the remaining steps still have to run. */
  get isRunning(): boolean {
    return this.#isRunning
  }

  set(step: ShutdownStep, run: Run): void {
    this.#runs.set(step, run)
  }

  /** Runs every registered step once. Resolves with the names of those that failed or exceeded their deadline. */
  async run(): Promise<ShutdownStep[]> {
    this.#isRunning = true
    const failed: ShutdownStep[] = []
    for (const [step, deadlineMs] of Object.entries(this.#deadlinesMs) as [ShutdownStep, number][]) {
      const run = this.#runs.get(step)
      this.#runs.delete(step)
      if (run !== undefined && !(await this.#succeeds(step, run, deadlineMs))) failed.push(step)
    }
    return failed
  }

  async #succeeds(step: ShutdownStep, run: Run, deadlineMs: number): Promise<boolean> {
    const startedAt = performance.now()
    try {
      await withDeadline(run, deadlineMs)
      this.#log.debug({ step, ms: Math.round(performance.now() - startedAt) }, 'shutdown.step')
      return true
    } catch (error) {
      this.#log.error({ step, err: error }, 'shutdown.step_failed')
      return false
    }
  }
}

async function withDeadline(run: Run, deadlineMs: number): Promise<void> {
  const isFinished = await endsWithin(deadlineMs, (async () => await run())())
  if (!isFinished) throw new Error(`not finished after ${deadlineMs} ms`)
}
