/** The settings of a pipe: description, senders and enrichment in one form; limits, origins; and deletion. */
import { useState } from 'react'
import { useLocation } from 'wouter'
import { counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import type { PipeDetail } from '../../../client/client.ts'
import { api, isNotFound } from '../../data/api.ts'
import { usePipeOverview } from '../../data/overview.ts'
import { useChange, usePipe } from '../../data/queries.ts'
import { Button, TextField } from '../../ui/controls.tsx'
import { Confirm } from '../../ui/dialog.tsx'
import { Loading } from '../../ui/failure.tsx'
import { Notice, Page, Section } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { Gone, PipeCrumb } from './crumbs.tsx'
import { LimitsForm } from './limits.tsx'
import { Origins } from './origins.tsx'
import { PipeForm } from './pipe-form.tsx'

export function PipeSettingsPage({ pipeId }: { pipeId: string }) {
  const { data, error } = usePipe(pipeId)
  if (isNotFound(error) && data === undefined) return <Gone what="pipe" />
  return (
    <Page
      title={`Settings of ${data?.pipe.pipe_name ?? 'a pipe'}`}
      name={
        <>
          Settings of <Outside text={data?.pipe.pipe_name ?? '…'} />
        </>
      }
      crumbs={<PipeCrumb pipeId={pipeId} />}
    >
      {isNotFound(error) ? (
        <Notice kind="bad">Another user deleted this pipe. You can still copy what you typed.</Notice>
      ) : null}
      {data === undefined ? (
        <Loading error={error} lines={12} />
      ) : (
        <>
          <PipeForm pipe={data.pipe} etag={data.etag} />
          <LimitsForm pipe={data.pipe} limits={data.limits} etag={data.etag} />
          <Origins detail={data} />
          <DeletePipe detail={data} />
        </>
      )}
    </Page>
  )
}

function DeletePipe({ detail: { pipe, destinations } }: { detail: PipeDetail }) {
  const [isAsking, setAsking] = useState(false)
  const [typed, setTyped] = useState('')
  const [, go] = useLocation()
  const live = usePipeOverview(pipe.pipe_id)
  const remove = useChange(() => api.call('deletePipe', { path: { pipe_id: pipe.pipe_id } }))
  const twin = command('pipes', 'delete', pipe.pipe_name, '--yes')
  const isNamed = typed === pipe.pipe_name
  return (
    <Section title="Delete this pipe">
      <p>
        Its address stops accepting records. Its {counted(destinations.length, 'destination')} and{' '}
        {counted(live?.pending_messages ?? 0, 'undelivered message')} are deleted.
      </p>
      <div>
        <Button look="danger" changes onClick={() => setAsking(true)}>
          Delete pipe …
        </Button>
      </div>
      {isAsking ? (
        <Confirm
          title={
            <>
              Delete <Outside text={pipe.pipe_name} />?
            </>
          }
          deed={`Delete the pipe and ${counted(live?.pending_messages ?? 0, 'message')}`}
          command={twin}
          run={async () => {
            if (!isNamed) throw new Error('Type the name of the pipe exactly as shown.')
            await remove.mutateAsync()
            say(`Pipe ${pipe.pipe_name} deleted.`, twin)
            go('/pipes')
          }}
          onClose={() => setAsking(false)}
        >
          <p>This cannot be undone. Senders get 404 from then on.</p>
          <TextField label={`Type ${pipe.pipe_name} to continue`} value={typed} onValue={setTyped} />
        </Confirm>
      ) : null}
    </Section>
  )
}
