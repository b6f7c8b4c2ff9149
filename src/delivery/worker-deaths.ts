/**
 * Decides from the deaths of delivery workers which lanes are quarantined, and when the next worker is started.
 *
 *   death in the code of one lane's driver ─────▶ that lane is blamed; twice in 10 minutes, and it is quarantined
 *   other death (a hang, out of memory) ────────▶ every lane under way is a suspect; one that finishes an attempt later is
 *                                                cleared; one that is under way at the next such death is quarantined
 *   quarantined ── delivered in its own thread ─▶ released; quarantined again within an hour, it is released only after a wait
 *
 * Innocent lanes that were under way twice are quarantined too. Their first attempt in a separate thread runs
 * immediately and releases them.
 */
import { backoffMs } from '../platform/backoff.ts'
import { minuteMs } from '../platform/quantities.ts'

export interface Death {
  /** The lane whose code threw; null when it is not known. */
  blamed: string | null
  underWay: readonly string[]
}

export interface Verdict {
  quarantined: string[]
  restartAfterMs: number
  /** The worker dies repeatedly and no lane is to blame. */
  isHopeless: boolean
}

interface Suspicion {
  blamedAt: number[]
  /** Unblamed deaths at which it was under way, since it last finished an attempt. */
  deaths: number
  /** The number of its quarantines, and the time of the last one. */
  quarantines: number
  quarantinedAt: number
  isQuarantined: boolean
  /** Time of the last death that involved it. */
  lastAt: number
}

const windowMs = 10 * minuteMs
const rememberedMs = 60 * minuteMs
const deathsToQuarantine = 2
const maxUnexplained = 10
const firstHoldMs = 5 * minuteMs
const firstRestartMs = 250
const longestRestartMs = 8_000

export class WorkerDeaths {
  readonly #now: () => number
  readonly #suspicions = new Map<string, Suspicion>()
  #deaths: number[] = []
  #unexplained: number[] = []

  /** `now` is monotonic, in ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  get suspects(): string[] {
    return this.#idsWhere(({ isQuarantined, deaths }) => !isQuarantined && deaths > 0)
  }

  get quarantined(): string[] {
    return this.#idsWhere(({ isQuarantined }) => isQuarantined)
  }

  died({ blamed, underWay }: Death): Verdict {
    const now = this.#now()
    this.#forgetOld(now)
    this.#deaths.push(now)
    const quarantined = blamed === null ? this.#suspect(underWay, now) : this.#blame(blamed, now)
    if (blamed === null && quarantined.length === 0) this.#unexplained.push(now)
    return {
      quarantined,
      restartAfterMs: restartAfterMs(this.#deaths.length),
      isHopeless: this.#unexplained.length > maxUnexplained,
    }
  }

  /** The lane has finished an attempt in the shared worker. */
  finished(destinationId: string): void {
    const suspicion = this.#suspicions.get(destinationId)
    if (suspicion !== undefined) suspicion.deaths = 0
  }

  /** The lane has delivered in its own thread. Returns true when its quarantine ends. */
  delivered(destinationId: string): boolean {
    const suspicion = this.#suspicions.get(destinationId)
    if (suspicion === undefined) return true
    const { quarantines, quarantinedAt } = suspicion
    const holdMs = quarantines < 2 ? 0 : backoffMs(quarantines - 1, firstHoldMs, rememberedMs)
    if (this.#now() - quarantinedAt < holdMs) return false
    suspicion.isQuarantined = false
    suspicion.deaths = 0
    suspicion.blamedAt = []
    return true
  }

  #blame(id: string, now: number): string[] {
    const suspicion = this.#involve(id, now)
    suspicion.blamedAt.push(now)
    const isEnough = suspicion.quarantines > 0 || suspicion.blamedAt.length >= deathsToQuarantine
    return isEnough ? this.#quarantine(id, suspicion) : []
  }

  #suspect(underWay: readonly string[], now: number): string[] {
    return underWay.flatMap((id) => {
      const suspicion = this.#involve(id, now)
      suspicion.deaths += 1
      return suspicion.deaths >= deathsToQuarantine ? this.#quarantine(id, suspicion) : []
    })
  }

  #quarantine(id: string, suspicion: Suspicion): string[] {
    if (suspicion.isQuarantined) return []
    suspicion.isQuarantined = true
    suspicion.quarantines += 1
    suspicion.quarantinedAt = suspicion.lastAt
    return [id]
  }

  #involve(id: string, now: number): Suspicion {
    const none = { blamedAt: [], deaths: 0, quarantines: 0, quarantinedAt: 0, isQuarantined: false }
    const suspicion = { ...(this.#suspicions.get(id) ?? none), lastAt: now }
    this.#suspicions.set(id, suspicion)
    return suspicion
  }

  #forgetOld(now: number): void {
    const isRecent = (at: number) => now - at < windowMs
    this.#deaths = this.#deaths.filter(isRecent)
    this.#unexplained = this.#unexplained.filter(isRecent)
    for (const [id, suspicion] of this.#suspicions) {
      suspicion.blamedAt = suspicion.blamedAt.filter(isRecent)
      const isOld = now - suspicion.lastAt >= rememberedMs
      if (isOld && !suspicion.isQuarantined) this.#suspicions.delete(id)
    }
  }

  #idsWhere(matches: (suspicion: Suspicion) => boolean): string[] {
    return [...this.#suspicions].filter(([, suspicion]) => matches(suspicion)).map(([id]) => id)
  }
}

/** No delay after the first death in the window, then increasing delays. */
function restartAfterMs(deaths: number): number {
  return deaths < 2 ? 0 : backoffMs(deaths - 1, firstRestartMs, longestRestartMs)
}
