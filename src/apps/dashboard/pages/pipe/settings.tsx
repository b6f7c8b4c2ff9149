/** The settings of a pipe: description, senders and enrichment in one form; limits, origins; and deletion. */
import { lazy, Suspense, useState } from 'react'
import { useLocation } from 'wouter'
import type { Pipe } from '../../../../contract/pipe.ts'
import { sourceWords } from '../../../../contract/source-words.ts'
import { counted } from '../../../../platform/quantities.ts'
import { settingsOf } from '../../../client/changed-meanwhile.ts'
import { command } from '../../../client/cli-twin.ts'
import type { PipeDetail } from '../../../client/client.ts'
import { api } from '../../data/api.ts'
import { usePipeOverview } from '../../data/overview.ts'
import { useChange } from '../../data/queries.ts'
import { ConfirmDelete } from '../../ui/confirm.tsx'
import { Button, ButtonLink } from '../../ui/controls.tsx'
import { TextField } from '../../ui/fields.tsx'
import { Section, Skeleton } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { WebhooksPage } from '../webhooks/webhooks.tsx'
import { PipeFormPage } from './form-page.tsx'
import { LimitsForm } from './limits.tsx'
import { Origins } from './origins.tsx'
import { PipeForm } from './pipe-form.tsx'

const SchemaPage = lazy(() => import('../schema/schema.tsx').then((m) => ({ default: m.SchemaPage })))

/** `part`: the page of one part of the settings. */
export function PipeSettingsPage({ pipeId, part }: { pipeId: string; part?: string }) {
  if (part === 'schema')
    return (
      <Suspense fallback={<Skeleton />}>
        <SchemaPage pipeId={pipeId} />
      </Suspense>
    )
  return part === 'webhooks' ? <WebhooksPage pipeId={pipeId} /> : <AllSettings pipeId={pipeId} />
}

function AllSettings({ pipeId }: { pipeId: string }) {
  return (
    <PipeFormPage pipeId={pipeId} title="Settings of" lines={12}>
      {(loaded) => <Settings {...loaded} />}
    </PipeFormPage>
  )
}

function Settings({ etag, ...detail }: PipeDetail & { etag: string | null }) {
  const { pipe, limits } = detail
  return (
    <>
      <PipeForm pipe={pipe} etag={etag} />
      <LimitsForm pipe={pipe} limits={limits} etag={etag} />
      <Origins detail={detail} />
      <SchemaLink pipe={pipe} />
      <WebhooksLink pipe={pipe} />
      <DeletePipe detail={detail} etag={etag} />
    </>
  )
}

function SchemaLink({ pipe }: { pipe: Pipe }) {
  const { pipe_schema: schema, pipe_schema_on_mismatch: action } = pipe
  return (
    <Section title="Schema of records">
      <p>
        {schema === null
          ? 'The pipe accepts every JSON object. A schema checks records before they are stored, and can be proposed from records.'
          : `Records are checked. Those that do not match are ${mismatchOutcomes[action]}.`}
      </p>
      <div>
        <ButtonLink to={`/pipes/${pipe.pipe_id}/settings/schema`}>
          {schema === null ? 'Set up a schema' : 'Show the schema'}
        </ButtonLink>
      </div>
    </Section>
  )
}

const mismatchOutcomes = {
  reject: 'rejected with their request',
  park: 'parked',
  tag: 'accepted with their errors',
} as const

function WebhooksLink({ pipe }: { pipe: Pipe }) {
  const { pipe_source: source } = pipe
  return (
    <Section title="Webhooks in">
      <p>
        {source === null
          ? 'Stripe, GitHub, Shopify and other providers can send their webhooks to this pipe, verified by their signature instead of an API key.'
          : `Webhooks are accepted: ${sourceWords(source.type).title}.`}
      </p>
      <div>
        <ButtonLink to={`/pipes/${pipe.pipe_id}/settings/webhooks`}>
          {source === null ? 'Set up webhooks' : 'Show webhooks'}
        </ButtonLink>
      </div>
    </Section>
  )
}

interface DeleteProps {
  detail: PipeDetail
  etag: string | null
}

function DeletePipe({ detail, etag }: DeleteProps) {
  const [isAsking, setAsking] = useState(false)
  const { pipe, destinations } = detail
  const live = usePipeOverview(pipe.pipe_id)
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
      {isAsking ? <DeleteDialog detail={detail} etag={etag} onClose={() => setAsking(false)} /> : null}
    </Section>
  )
}

function DeleteDialog({ detail, etag, onClose }: DeleteProps & { onClose: () => void }) {
  const { pipe } = detail
  const [typed, setTyped] = useState('')
  const [, go] = useLocation()
  const path = { pipe_id: pipe.pipe_id }
  const pending = usePipeOverview(pipe.pipe_id)?.pending_messages ?? 0
  const remove = useChange((ifMatch: string | null) => api.call('deletePipe', { path, ifMatch }))
  const twin = command('pipes', 'delete', pipe.pipe_name, '--yes')
  return (
    <ConfirmDelete
      title={
        <>
          Delete <Outside text={pipe.pipe_name} />?
        </>
      }
      confirmLabel={pending === 0 ? 'Delete the pipe' : `Delete the pipe and ${counted(pending, 'message')}`}
      command={twin}
      seen={{ stored: detail, etag }}
      part={settingsOf}
      read={async () => {
        const { body, etag } = await api.call('getPipe', { path })
        return { stored: body, etag }
      }}
      remove={async (ifMatch) => {
        if (typed !== pipe.pipe_name) throw new Error('Type the name of the pipe exactly as shown.')
        await remove.mutateAsync(ifMatch)
        say(`Pipe ${pipe.pipe_name} deleted.`, twin)
        go('/pipes')
      }}
      onClose={onClose}
    >
      <p>This cannot be undone. Senders then get 404.</p>
      <TextField label={`Type ${pipe.pipe_name} to confirm`} value={typed} onValue={setTyped} />
    </ConfirmDelete>
  )
}
