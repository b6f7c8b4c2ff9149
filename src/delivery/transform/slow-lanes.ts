/**
 * Lanes whose transforms are slow, and workspaces with several of them: their jobs run apart from the others'. It is remembered
 * whatever becomes of the transform, so that a change of it does not bring a lane back among the others, and forgotten after an
 * hour in which it was not slow again, or when the lane or its workspace is gone.
 *
 * A lane that is slow costs the others a second, before it is known. A workspace can do that three times, and not once for each lane.
 */
import type { Turn } from './thread-protocol.ts'

const mostSlowLanes = 3
const rememberedMs = 3_600_000
/** The limit of workspaces: the one that was slow the longest time ago is forgotten first. */
const mostRemembered = 1_000

interface Slow {
  lanes: Set<string>
  isAll: boolean
  sinceMs: number
}

export class SlowLanes {
  readonly #now: () => number
  readonly #workspaces = new Map<string, Slow>()

  /** `now`: monotonic, in ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Its lane, or all of its workspace. */
  has({ workspaceId, destinationId }: Turn): boolean {
    const slow = this.#workspaces.get(workspaceId)
    if (slow === undefined) return false
    if (this.#now() - slow.sinceMs < rememberedMs) return slow.isAll || slow.lanes.has(destinationId)
    this.#workspaces.delete(workspaceId)
    return false
  }

  addLane({ workspaceId, destinationId }: Turn): void {
    const slow = this.#noted(workspaceId)
    slow.lanes.add(destinationId)
    if (slow.lanes.size >= mostSlowLanes) this.addWorkspace(workspaceId)
  }

  addWorkspace(workspaceId: string): void {
    const slow = this.#noted(workspaceId)
    slow.isAll = true
    slow.lanes.clear()
  }

  /** The time of the workspace's other lanes stays known. */
  laneGone({ workspaceId, destinationId }: Turn): void {
    const slow = this.#workspaces.get(workspaceId)
    slow?.lanes.delete(destinationId)
    if (slow?.lanes.size === 0 && !slow.isAll) this.#workspaces.delete(workspaceId)
  }

  workspaceGone(workspaceId: string): void {
    this.#workspaces.delete(workspaceId)
  }

  get size(): number {
    return this.#workspaces.size
  }

  #noted(workspaceId: string): Slow {
    const slow = this.#workspaces.get(workspaceId) ?? { lanes: new Set(), isAll: false, sinceMs: 0 }
    slow.sinceMs = this.#now()
    this.#workspaces.delete(workspaceId)
    this.#workspaces.set(workspaceId, slow)
    if (this.#workspaces.size > mostRemembered) this.#workspaces.delete(this.#workspaces.keys().next().value!)
    return slow
  }
}
