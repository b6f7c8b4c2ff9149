/** The keys that change the selected lane or its pipe. */
import type { Client } from '../client/client.ts'
import { skipHelps } from '../client/lane-error.ts'
import * as actions from './actions.ts'
import type { Row } from './rows.ts'
import type { EntryView } from './use-entry.ts'

export const noLaneNotice = 'Choose a lane first: a line below a pipe.'
const readOnlyNotice = 'This screen is read-only.'
// Fits into 80 columns.
const skipWontHelpNotice = 'Skipping does not help: no record is at fault. Fix the destination, then r.'

export interface LaneKeysDeps extends Pick<EntryView, 'begin'> {
  client: Client
  readOnly: boolean
  row: Row | null
  lane: actions.Lane | null
  act(what: Promise<string>): void
  notify(text: string): void
}

export function laneKeys(deps: LaneKeysDeps): Record<string, () => void> {
  const { client, readOnly, row, lane, act, notify, begin } = deps
  const onLane = (what: (chosen: actions.Lane) => void) => () => {
    if (readOnly) notify(readOnlyNotice)
    else if (lane === null) notify(noLaneNotice)
    else what(lane)
  }
  return {
    s: onLane((chosen) => {
      if (skipHelps(chosen.destination.lane)) begin({ kind: 'skip', lane: chosen })
      else notify(skipWontHelpNotice)
    }),
    w: onLane((chosen) => begin({ kind: 'rewind', lane: chosen })),
    r: onLane((chosen) => act(actions.retry(client, chosen))),
    b: onLane((chosen) => {
      if (chosen.destination.destination_status === 'active') begin({ kind: 'block', lane: chosen })
      else act(actions.toggleBlocked(client, chosen))
    }),
    p: () => {
      if (readOnly) notify(readOnlyNotice)
      else if (row !== null) begin({ kind: 'pause', pipe: row.pipe })
    },
  }
}
