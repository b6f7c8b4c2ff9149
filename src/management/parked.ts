/** What people do to parked records: look, edit, replay, discard (contract "Parked messages"). */
import type { ParkedList, ParkedReplay, ParkedReplayed } from '../contract/parked.ts'

/** By operationId. Ids as the path has them: what is no UUID or another's gives the resource's 404. */
export interface ParkedUseCases {
  /** `query`: `limit`, `after`, `error_code`, `reason` as sent, unchecked. */
  listParked(
    workspaceId: string,
    pipeId: string,
    destinationId: string,
    query: URLSearchParams,
  ): Promise<ParkedList>
  /** The body itself (ParkedDetail): the records' own text must not pass through a parser again. */
  getParked(workspaceId: string, pipeId: string, destinationId: string, parkedId: string): Promise<Buffer>
  /**
   * `body`: parsed, unchecked (ParkedReplayRequest). `recordTexts`: of its `records` each one's own text on one line; null: it has
   * none that are objects, so that either it replays what is stored or the check of `body` throws.
   */
  replayParked(
    workspaceId: string,
    pipeId: string,
    destinationId: string,
    parkedId: string,
    body: unknown,
    recordTexts: readonly string[] | null,
  ): Promise<ParkedReplay>
  /** `body`: ParkedReplayManyRequest, unchecked. */
  replayManyParked(
    workspaceId: string,
    pipeId: string,
    destinationId: string,
    body: unknown,
  ): Promise<ParkedReplayed>
  deleteParked(workspaceId: string, pipeId: string, destinationId: string, parkedId: string): Promise<void>
}
