/**
 * The content of one parked record, to be replayed as stored or with changes, or discarded. The typed text stays
 * while the page is open, whatever the result of a replay.
 */
import { useState } from 'react'
import { useLocation } from 'wouter'
import type { ParkedDetail } from '../../../../contract/parked.ts'
import { command } from '../../../client/cli-twin.ts'
import {
  compacted,
  placeWords,
  type ReplayOutcome,
  replayBody,
  replayOutcome,
} from '../../../client/parked.ts'
import { type LaneRef, lanePath } from '../../../client/workspace.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { useMayChange } from '../../data/session-context.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button, formStyles } from '../../ui/controls.tsx'
import { FailureNotice } from '../../ui/failure.tsx'
import { CliTwin, Section, Soft } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'
import { parkedPath, useReference } from './crumbs.tsx'
import { Diff } from './diff.tsx'
import { type DraftText, useDraftText } from './draft-text.ts'
import { JsonEditor } from './editor.tsx'

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
  const [asking, setAsking] = useState<'replay' | 'discard' | null>(null)
  const mayChange = useMayChange()
  const draft = useDraftText(text, body.records_count)
  const replay = useReplay({ place, body, onOutcome })
  const close = () => setAsking(null)
  const { edited } = draft
  return (
    <Section title={body.records_count === 1 ? 'The record' : 'The records'}>
      <JsonEditor
        label="JSON"
        value={draft.shown}
        readOnly={!mayChange}
        fault={draft.fault}
        onValue={draft.onValue}
      />
      <FailureNotice failure={asking === null ? replay.error : null} />
      <Actions draft={draft} body={body} replay={replay} onAsk={setAsking} />
      <EquivalentCommand place={place} body={body} isChanged={draft.isChanged} />
      {asking === 'replay' && edited !== null ? (
        <ReplayDialog
          place={place}
          body={body}
          edited={edited}
          draft={draft}
          replay={replay}
          onClose={close}
        />
      ) : null}
      {asking === 'discard' ? <DiscardDialog place={place} body={body} onClose={close} /> : null}
    </Section>
  )
}

/** `run` rejects if the daemon rejects the replay. Its result is reported later, with `onOutcome`. */
function useReplay({ place, body, onOutcome }: Pick<EditRecordProps, 'place' | 'body' | 'onOutcome'>) {
  const { parked_id: parkedId } = body
  const { mutateAsync, isPending, error } = useChange((records: readonly string[] | null) =>
    api.call('replayParked', {
      path: { ...lanePath(place), parked_id: parkedId },
      body: replayBody(records),
    }),
  )
  /** `records` null: as stored. */
  const run = async (records: readonly string[] | null) => {
    onOutcome(null)
    const { replays } = (await mutateAsync(records)).body
    onOutcome({ kind: 'waiting' })
    replayOutcome(api, place, { parkedId, replays }, outcomeWaitMs).then(onOutcome, () => {})
  }
  return { run, isPending, error }
}

interface ActionsProps extends Pick<EditRecordProps, 'body'> {
  draft: DraftText
  replay: ReturnType<typeof useReplay>
  onAsk: (asking: 'replay' | 'discard') => void
}

function Actions({ draft, body, replay, onAsk }: ActionsProps) {
  const isReplaying = body.state === 'replaying'
  return (
    <div className={formStyles.actions}>
      {draft.isChanged ? (
        <Button
          look="primary"
          changes
          disabled={draft.edited === null || isReplaying}
          onClick={() => onAsk('replay')}
        >
          Replay with changes …
        </Button>
      ) : (
        <Button
          look="primary"
          changes
          disabled={isReplaying}
          isBusy={replay.isPending}
          onClick={() => void replay.run(null).catch(() => {})}
        >
          Replay
        </Button>
      )}
      {draft.isTyped ? <Button onClick={draft.restore}>Restore the stored text</Button> : null}
      <Button changes disabled={isReplaying} onClick={() => onAsk('discard')}>
        Discard …
      </Button>
      {isReplaying ? <Soft>Replaying …</Soft> : null}
    </div>
  )
}

type RecordProps = Pick<EditRecordProps, 'place' | 'body'>

function EquivalentCommand({ place, body, isChanged }: RecordProps & { isChanged: boolean }) {
  return (
    <CliTwin
      command={command('parked', isChanged ? 'edit' : 'replay', useReference(place), body.parked_id)}
    />
  )
}

interface ReplayDialogProps extends RecordProps {
  edited: NonNullable<DraftText['edited']>
  draft: DraftText
  replay: ReturnType<typeof useReplay>
  onClose: () => void
}

function ReplayDialog({ place, body, edited, draft, replay, onClose }: ReplayDialogProps) {
  return (
    <Confirm
      title="Replay with these changes?"
      confirmLabel="Replay"
      isDanger={false}
      command={command('parked', 'edit', useReference(place), body.parked_id)}
      run={async () => {
        await replay.run(edited.texts.map(compacted))
        draft.restore()
      }}
      onClose={onClose}
    >
      <p>The changes replace the stored record. The destination receives it after the current batch.</p>
      <Diff before={draft.stored} after={edited.text} />
    </Confirm>
  )
}

function DiscardDialog({ place, body, onClose }: RecordProps & { onClose: () => void }) {
  const [, go] = useLocation()
  const discard = useChange(() =>
    api.call('deleteParked', { path: { ...lanePath(place), parked_id: body.parked_id } }),
  )
  const name = placeWords(body)
  const twin = command('parked', 'discard', useReference(place), body.parked_id, '--yes')
  return (
    <Confirm
      title={`Discard parked record ${name}?`}
      confirmLabel="Discard"
      command={twin}
      run={async () => {
        await discard.mutateAsync()
        say(`Parked record ${name} discarded.`, twin)
        go(parkedPath(place))
      }}
      onClose={onClose}
    >
      The destination never receives it. This cannot be undone.
    </Confirm>
  )
}
