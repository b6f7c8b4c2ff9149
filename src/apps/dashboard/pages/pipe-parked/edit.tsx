/**
 * The content of a record that is parked at its pipe, to be replayed as stored or with changes, or discarded. A record
 * that the schema rejects again can be stored nevertheless.
 */
import { useState } from 'react'
import { useLocation } from 'wouter'
import type { PipeParkedDetail } from '../../../../contract/pipe-parked.ts'
import { command } from '../../../client/cli-twin.ts'
import { ApiFailure } from '../../../client/failure.ts'
import { compacted, replayBody } from '../../../client/parked.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { useMayChange } from '../../data/session-context.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button, formStyles } from '../../ui/controls.tsx'
import { FailureNotice, Revealed } from '../../ui/failure.tsx'
import { CliTwin, Notice, Section, Soft } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'
import { Diff } from '../parked/diff.tsx'
import { type DraftText, useDraftText } from '../parked/draft-text.ts'
import { JsonEditor } from '../parked/editor.tsx'
import { pipeParkedPath, usePipeName } from './queries.ts'

interface EditProps {
  pipeId: string
  body: Omit<PipeParkedDetail, 'records'>
  /** The original text of the response, in which numbers keep all digits. */
  text: string
  onStored: (msgId: string) => void
}

type Asking = 'replay' | 'force' | 'discard'

export function EditPipeParked({ pipeId, body, text, onStored }: EditProps) {
  const [asking, setAsking] = useState<Asking | null>(null)
  const mayChange = useMayChange()
  const draft = useDraftText(text, 1)
  const replay = useReplay({ pipeId, body, onStored })
  const twin = command(
    ...['pipes', 'parked', draft.isChanged ? 'edit' : 'replay'],
    ...[usePipeName(pipeId), body.parked_id],
  )
  return (
    <Section title="The record">
      <JsonEditor
        label="JSON"
        value={draft.shown}
        readOnly={!mayChange}
        fault={draft.fault}
        onValue={draft.onValue}
      />
      {replay.isMismatch ? (
        <Revealed failure={replay.error}>
          <Notice kind="bad">The record still does not match the schema. It stays parked.</Notice>
        </Revealed>
      ) : (
        <FailureNotice failure={asking === null ? replay.error : null} />
      )}
      <Actions draft={draft} body={body} replay={replay} onAsk={setAsking} />
      <CliTwin command={twin} />
      {asking === null ? null : (
        <Asked
          asking={asking}
          pipeId={pipeId}
          body={body}
          draft={draft}
          replay={replay}
          onClose={() => setAsking(null)}
        />
      )}
    </Section>
  )
}

function useReplay({ pipeId, body, onStored }: Omit<EditProps, 'text'>) {
  const path = { pipe_id: pipeId, parked_id: body.parked_id }
  const { mutateAsync, isPending, error } = useChange((sent: Uint8Array<ArrayBuffer>) =>
    api.call('replayPipeParked', { path, body: sent }),
  )
  /**
   * `records` null: as stored. Rejects if the record is not stored, unless it does not match the schema: then it is stored
   * as edited, and the page shows its errors.
   */
  const run = async (records: readonly string[] | null, isForced = false) => {
    try {
      onStored((await mutateAsync(replayBody(records, isForced))).body.msg_id)
    } catch (failure) {
      if (!isMismatch(failure)) throw failure
    }
  }
  return { run, isPending, error, isMismatch: isMismatch(error) }
}

type Replay = ReturnType<typeof useReplay>

function isMismatch(failure: unknown): boolean {
  return failure instanceof ApiFailure && failure.code === 'parked_mismatch'
}

interface ActionsProps extends Pick<EditProps, 'body'> {
  draft: DraftText
  replay: Replay
  onAsk: (asking: Asking) => void
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
          isBusy={replay.isPending}
          onClick={() => void replay.run(null).catch(() => {})}
        >
          {isReplaying ? 'Finish the replay' : 'Replay'}
        </Button>
      )}
      {replay.isMismatch && !draft.isChanged ? (
        <Button changes onClick={() => onAsk('force')}>
          Replay anyway …
        </Button>
      ) : null}
      {draft.isTyped ? <Button onClick={draft.restore}>Restore the stored text</Button> : null}
      <Button changes disabled={isReplaying} onClick={() => onAsk('discard')}>
        Discard …
      </Button>
      {isReplaying ? <Soft>A replay is in progress or was interrupted.</Soft> : null}
    </div>
  )
}

interface AskedProps extends Pick<EditProps, 'pipeId' | 'body'> {
  draft: DraftText
  replay: Replay
  onClose: () => void
}

function Asked({ asking, ...props }: AskedProps & { asking: Asking }) {
  if (asking === 'discard') return <DiscardDialog {...props} />
  return asking === 'force' ? <ForceDialog {...props} /> : <ReplayDialog {...props} />
}

function ReplayDialog({ pipeId, body, draft, replay, onClose }: AskedProps) {
  const twin = command('pipes', 'parked', 'edit', usePipeName(pipeId), body.parked_id)
  const { edited } = draft
  if (edited === null) return null
  return (
    <Confirm
      title="Replay with these changes?"
      confirmLabel="Replay"
      isDanger={false}
      command={twin}
      run={() => replay.run(edited.texts.map(compacted))}
      onClose={onClose}
    >
      <p>The changes replace the stored record, which is then checked and stored as a new message.</p>
      <Diff before={draft.stored} after={edited.text} />
    </Confirm>
  )
}

function ForceDialog({ pipeId, body, replay, onClose }: AskedProps) {
  const twin = command('pipes', 'parked', 'replay', usePipeName(pipeId), body.parked_id, '--force')
  return (
    <Confirm
      title="Replay this record although it does not match?"
      confirmLabel="Replay anyway"
      isDanger={false}
      command={twin}
      run={() => replay.run(null, true)}
      onClose={onClose}
    >
      The destinations of the pipe receive it as it is.
    </Confirm>
  )
}

function DiscardDialog({ pipeId, body, onClose }: AskedProps) {
  const [, go] = useLocation()
  const discard = useChange(() =>
    api.call('deletePipeParked', { path: { pipe_id: pipeId, parked_id: body.parked_id } }),
  )
  const twin = command('pipes', 'parked', 'discard', usePipeName(pipeId), body.parked_id, '--yes')
  return (
    <Confirm
      title="Discard this parked record?"
      confirmLabel="Discard"
      command={twin}
      run={async () => {
        await discard.mutateAsync()
        say('Parked record discarded.', twin)
        go(pipeParkedPath(pipeId))
      }}
      onClose={onClose}
    >
      No destination receives it. This cannot be undone.
    </Confirm>
  )
}
