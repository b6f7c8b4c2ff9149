/** The content of one record that is parked at a lane: see record-editor.tsx. */
import type { ParkedDetail } from '../../../../contract/parked.ts'
import { command } from '../../../client/cli-twin.ts'
import { placeWords, type ReplayOutcome, replayBody, replayOutcome } from '../../../client/parked.ts'
import { type LaneRef, lanePath } from '../../../client/workspace.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { parkedPath, useReference } from './crumbs.tsx'
import { useDraftText } from './draft-text.ts'
import { RecordEditor, type RecordReplay } from './record-editor.tsx'

const outcomeWaitMs = 60_000

interface EditRecordProps {
  place: LaneRef
  body: Omit<ParkedDetail, 'records'>
  /** The original text of the response, in which numbers keep all digits. */
  text: string
  /** Null: the result of the last replay no longer applies. */
  onOutcome: (outcome: ReplayOutcome | null) => void
}

export function EditRecord({ place, body, text, onOutcome }: EditRecordProps) {
  const reference = useReference(place)
  const draft = useDraftText(text, body.records_count)
  const replay = useReplay({ place, body, onOutcome }, draft.restore)
  const path = { ...lanePath(place), parked_id: body.parked_id }
  const name = placeWords(body)
  return (
    <RecordEditor
      title={body.records_count === 1 ? 'The record' : 'The records'}
      draft={draft}
      replay={replay}
      isReplaying={body.state === 'replaying'}
      replaying={{ label: null, note: 'Replaying …' }}
      commandOf={(action, ...flags) => command('parked', action, reference, body.parked_id, ...flags)}
      changes="The changes replace the stored record. The destination receives it after the current batch."
      discard={{
        title: `Discard parked record ${name}?`,
        consequence: 'The destination never receives it.',
        done: `Parked record ${name} discarded.`,
        run: () => api.call('deleteParked', { path }),
        listPath: parkedPath(place),
      }}
    />
  )
}

/** `run` rejects if the daemon rejects the replay. Its result is reported later, with `onOutcome`. */
function useReplay(
  { place, body, onOutcome }: Omit<EditRecordProps, 'text'>,
  onChangesSent: () => void,
): RecordReplay {
  const { parked_id: parkedId } = body
  const { mutateAsync, isPending, error } = useChange((records: readonly string[] | null) =>
    api.call('replayParked', {
      path: { ...lanePath(place), parked_id: parkedId },
      body: replayBody(records),
    }),
  )
  const run = async (records: readonly string[] | null) => {
    onOutcome(null)
    const { replays } = (await mutateAsync(records)).body
    onOutcome({ kind: 'waiting' })
    replayOutcome(api, place, { parkedId, replays }, outcomeWaitMs).then(onOutcome, () => {})
    if (records !== null) onChangesSent()
  }
  return { run, isPending, error }
}
