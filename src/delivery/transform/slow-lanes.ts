/**
 * Remembers lanes with slow transforms, and workspaces with several of them: their jobs run in other threads. A change of
 * the transform does not clear this, so that it does not bring a lane back to the shared thread. It is cleared after an
 * hour without slowness, or when the lane or its workspace is gone.
 *
 * Detecting a slow lane costs the others up to a second. A workspace can cause that three times, not once per lane.
 */
import type { Turn } from './thread-protocol.ts'

const maxSlowLanes = 3
const rememberedMs = 3_600_000
/** The limit of remembered workspaces: the one that was slow longest ago is forgotten first. */
const maxRemembered = 1_000

interface Slow {
  lanes: Set<string>
  isAll: boolean
  sinceMs: number
}

export class SlowLanes {
  readonly #now: () => number
  readonly #workspaces = new Map<string, Slow>()

  /** `now` is monotonic, in ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** True for a slow lane, or any lane of a slow workspace. */
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
    if (slow.lanes.size >= maxSlowLanes) this.addWorkspace(workspaceId)
  }

  addWorkspace(workspaceId: string): void {
    const slow = this.#noted(workspaceId)
    slow.isAll = true
    slow.lanes.clear()
  }

  /** The times of the workspace's other lanes are kept. */
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
    if (this.#workspaces.size > maxRemembered) this.#workspaces.delete(this.#workspaces.keys().next().value!)
    return slow
  }
}
