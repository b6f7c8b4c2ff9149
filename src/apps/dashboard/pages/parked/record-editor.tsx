/**
 * The content of a parked record, of a lane or of a pipe, to be replayed as stored or with changes, or discarded. The
 * typed text stays while the page is open, whatever the result of a replay.
 */
import { type ReactNode, useState } from 'react'
import { useLocation } from 'wouter'
import { compacted } from '../../../client/parked.ts'
import { useChange } from '../../data/queries.ts'
import { useMayChange } from '../../data/session-context.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button, formStyles } from '../../ui/controls.tsx'
import { FailureNotice } from '../../ui/failure.tsx'
import { CliTwin, Section, Soft } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'
import { Diff } from './diff.tsx'
import type { DraftText } from './draft-text.ts'
import { JsonEditor } from './editor.tsx'

export interface RecordReplay {
  /** `records` null: as stored. Rejects with `error` if the replay is rejected. */
  run: (records: readonly string[] | null) => Promise<void>
  isPending: boolean
  error: unknown
}

interface RecordEditorProps {
  title: string
  draft: DraftText
  replay: RecordReplay
  isReplaying: boolean
  /** While it is replaying. `label` null: it cannot be replayed. */
  replaying: { label: string | null; note: string }
  /** The equivalent command. */
  commandOf: (action: 'replay' | 'edit' | 'discard', ...flags: string[]) => string
  /** The dialog of a replay with changes says this. */
  changes: string
  discard: { title: string; consequence: string; done: string; run: () => Promise<unknown>; listPath: string }
  /** Replaces the message of a failed replay. */
  notice?: ReactNode
  /** More buttons. */
  children?: ReactNode
}

export function RecordEditor(props: RecordEditorProps) {
  const { title, draft, replay, commandOf, notice } = props
  const [asking, setAsking] = useState<'replay' | 'discard' | null>(null)
  const mayChange = useMayChange()
  const close = () => setAsking(null)
  return (
    <Section title={title}>
      <JsonEditor
        label="JSON"
        value={draft.shown}
        readOnly={!mayChange}
        fault={draft.fault}
        onValue={draft.onValue}
      />
      {notice ?? <FailureNotice failure={asking === null ? replay.error : null} />}
      <Actions {...props} onAsk={setAsking} />
      <CliTwin command={commandOf(draft.isChanged ? 'edit' : 'replay')} />
      {asking === 'replay' ? <ReplayDialog {...props} onClose={close} /> : null}
      {asking === 'discard' ? <DiscardDialog {...props} onClose={close} /> : null}
    </Section>
  )
}

type ActionsProps = RecordEditorProps & { onAsk: (asking: 'replay' | 'discard') => void }

function Actions({ draft, replay, isReplaying, replaying, children, onAsk }: ActionsProps) {
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
          disabled={isReplaying && replaying.label === null}
          isBusy={replay.isPending}
          onClick={() => void replay.run(null).catch(() => {})}
        >
          {(isReplaying ? replaying.label : null) ?? 'Replay'}
        </Button>
      )}
      {children}
      {draft.isTyped ? <Button onClick={draft.restore}>Restore the stored text</Button> : null}
      <Button changes disabled={isReplaying} onClick={() => onAsk('discard')}>
        Discard …
      </Button>
      {isReplaying ? <Soft>{replaying.note}</Soft> : null}
    </div>
  )
}

type DialogProps = RecordEditorProps & { onClose: () => void }

function ReplayDialog({ draft, replay, changes, commandOf, onClose }: DialogProps) {
  const { edited, stored } = draft
  if (edited === null) return null
  return (
    <Confirm
      title="Replay with these changes?"
      confirmLabel="Replay"
      isDanger={false}
      command={commandOf('edit')}
      run={() => replay.run(edited.texts.map(compacted))}
      onClose={onClose}
    >
      <p>{changes}</p>
      <Diff before={stored} after={edited.text} />
    </Confirm>
  )
}

function DiscardDialog({ discard, commandOf, onClose }: DialogProps) {
  const [, go] = useLocation()
  const { mutateAsync } = useChange(discard.run)
  const twin = commandOf('discard', '--yes')
  return (
    <Confirm
      title={discard.title}
      confirmLabel="Discard"
      command={twin}
      run={async () => {
        await mutateAsync(undefined)
        say(discard.done, twin)
        go(discard.listPath)
      }}
      onClose={onClose}
    >
      {discard.consequence} This cannot be undone.
    </Confirm>
  )
}
