/**
 * The content of a record that is parked at its pipe: see parked/record-editor.tsx. A record that the schema rejects
 * again can be stored nevertheless.
 */
import { useState } from 'react'
import type { PipeParkedDetail } from '../../../../contract/pipe-parked.ts'
import { command } from '../../../client/cli-twin.ts'
import { ApiFailure } from '../../../client/failure.ts'
import { replayBody } from '../../../client/parked.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button } from '../../ui/controls.tsx'
import { Revealed } from '../../ui/failure.tsx'
import { Notice } from '../../ui/layout.tsx'
import { useDraftText } from '../parked/draft-text.ts'
import { RecordEditor } from '../parked/record-editor.tsx'
import { pipeParkedPath, usePipeName } from './queries.ts'

interface EditProps {
  pipeId: string
  body: Omit<PipeParkedDetail, 'records'>
  /** The original text of the response, in which numbers keep all digits. */
  text: string
  onStored: (msgId: string) => void
}

export function EditPipeParked({ pipeId, body, text, onStored }: EditProps) {
  const [asksForce, setAsksForce] = useState(false)
  const pipeName = usePipeName(pipeId)
  const draft = useDraftText(text, 1)
  const replay = useReplay({ pipeId, body, onStored })
  const commandOf = (action: string, ...flags: string[]) =>
    command('pipes', 'parked', action, pipeName, body.parked_id, ...flags)
  return (
    <>
      <RecordEditor
        title="The record"
        draft={draft}
        replay={replay}
        isReplaying={body.state === 'replaying'}
        replaying={{ label: 'Finish the replay', note: 'A replay is in progress or was interrupted.' }}
        commandOf={commandOf}
        changes="The changes replace the stored record, which is then checked and stored as a new message."
        discard={{
          title: 'Discard this parked record?',
          consequence: 'No destination receives it.',
          done: 'Parked record discarded.',
          run: () => api.call('deletePipeParked', { path: { pipe_id: pipeId, parked_id: body.parked_id } }),
          listPath: pipeParkedPath(pipeId),
        }}
        notice={replay.isMismatch ? <StillMismatching failure={replay.error} /> : undefined}
      >
        {replay.isMismatch && !draft.isChanged ? (
          <Button changes onClick={() => setAsksForce(true)}>
            Replay anyway …
          </Button>
        ) : null}
      </RecordEditor>
      {asksForce ? (
        <Confirm
          title="Replay this record although it does not match?"
          confirmLabel="Replay anyway"
          isDanger={false}
          command={commandOf('replay', '--force')}
          run={() => replay.run(null, true)}
          onClose={() => setAsksForce(false)}
        >
          The destinations of the pipe receive it as it is.
        </Confirm>
      ) : null}
    </>
  )
}

function StillMismatching({ failure }: { failure: unknown }) {
  return (
    <Revealed failure={failure}>
      <Notice kind="bad">The record still does not match the schema. It stays parked.</Notice>
    </Revealed>
  )
}

function useReplay({ pipeId, body, onStored }: Omit<EditProps, 'text'>) {
  const path = { pipe_id: pipeId, parked_id: body.parked_id }
  const { mutateAsync, isPending, error } = useChange((sent: Uint8Array<ArrayBuffer>) =>
    api.call('replayPipeParked', { path, body: sent }),
  )
  /**
   * Rejects if the record is not stored, unless it does not match the schema: then it is stored as edited, and the page
   * shows its errors.
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

function isMismatch(failure: unknown): boolean {
  return failure instanceof ApiFailure && failure.code === 'parked_mismatch'
}
