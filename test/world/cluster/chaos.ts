/**
 * Faults, one after the other, that a cluster must survive: a node or a NATS server is killed, paused, or cut off from everything
 * else, and comes back before the next one; PostgreSQL restarts twice. A majority always lives.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { seeded } from '../../support/rogue/rogue-server.ts'

/** The actions on a node or a NATS server. */
export interface Victim {
  name: string
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<unknown>
  /** Again on the same address and data; resolves when it serves. */
  start(): Promise<unknown>
  /** SIGSTOP. */
  pause(): void
  resume(): void
  /** Its connections hang and new ones are refused. */
  cut(): void
  mend(): void
}

export interface ChaosOptions {
  nodes: readonly Victim[]
  servers: readonly Victim[]
  restartPostgres(): Promise<void>
  seconds: number
  /** From the beginning of a fault to that of the next one. */
  everyMs: number
  /** How long a victim is paused, or cut off. */
  awayMs: number
  seed: number
}

export interface Fault {
  kind: 'killed' | 'paused' | 'cut off' | 'restarted'
  victim: string
  /** On `performance.now()`. */
  fromMs: number
  /** When it was undone. */
  toMs: number
}

/**
 * A node's death first; then each kind for each victim in random order, and again in another, until the time is over. Resolves when
 * all of it is undone.
 */
export async function runChaos(options: ChaosOptions, onFault: (fault: Fault) => void): Promise<Fault[]> {
  const { nodes, servers, seconds, everyMs, awayMs, seed } = options
  const random = seeded(seed)
  const faults: Fault[] = []
  const begun = performance.now()
  const endMs = begun + seconds * 1_000
  const restartsAt = [begun + (seconds * 1_000) / 3, begun + (seconds * 2_000) / 3]
  let left = nodes.slice(0, 1).flatMap((victim) => faultsOf(victim, awayMs).slice(0, 1))
  while (performance.now() + everyMs <= endMs) {
    const fromMs = performance.now()
    if (left.length === 0) left = [...nodes, ...servers].flatMap((victim) => faultsOf(victim, awayMs))
    const isPostgresDue = restartsAt[0] !== undefined && fromMs >= restartsAt[0]
    if (isPostgresDue) restartsAt.shift()
    const [next] = isPostgresDue ? [() => restart(options)] : left.splice(random(left.length), 1)
    const fault = await next!()
    faults.push(fault)
    onFault(fault)
    await delay(Math.max(0, fromMs + everyMs - performance.now()))
  }
  return faults
}

function faultsOf(victim: Victim, awayMs: number): (() => Promise<Fault>)[] {
  const during = async (kind: Fault['kind'], begin: () => unknown, end: () => unknown): Promise<Fault> => {
    const fromMs = performance.now()
    await begin()
    await delay(kind === 'killed' ? awayMs / 2 : awayMs)
    await end()
    return { kind, victim: victim.name, fromMs, toMs: performance.now() }
  }
  return [
    () =>
      during(
        'killed',
        () => victim.kill(),
        () => victim.start(),
      ),
    () =>
      during(
        'paused',
        () => victim.pause(),
        () => victim.resume(),
      ),
    () =>
      during(
        'cut off',
        () => victim.cut(),
        () => victim.mend(),
      ),
  ]
}

async function restart({ restartPostgres }: ChaosOptions): Promise<Fault> {
  const fromMs = performance.now()
  await restartPostgres()
  return { kind: 'restarted', victim: 'PostgreSQL', fromMs, toMs: performance.now() }
}
