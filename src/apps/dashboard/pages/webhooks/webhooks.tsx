/** Webhooks of a provider into a pipe: set up, waiting for the first event, rejected requests, secrets. */
import { useState } from 'react'
import type { Pipe } from '../../../../contract/pipe.ts'
import { type SourceType, sourceTypes, sourceWords } from '../../../../contract/source-words.ts'
import type { Versioned } from '../../data/if-unchanged.ts'
import { useDataUrl } from '../../data/queries.ts'
import { useMayChange } from '../../data/session-context.ts'
import { Button } from '../../ui/controls.tsx'
import { Soft } from '../../ui/layout.tsx'
import { ShownOnce } from '../../ui/shown-once.tsx'
import kinds from '../destination/new.module.css'
import { Step } from '../destination/step.tsx'
import { PipeFormPage } from '../pipe/form-page.tsx'
import { Arrivals, Rejected } from './arrivals.tsx'
import { RemoveSource } from './remove.tsx'
import { Secrets } from './secrets.tsx'
import { SourceForm } from './source-form.tsx'

export function WebhooksPage({ pipeId }: { pipeId: string }) {
  return (
    <PipeFormPage pipeId={pipeId} title="Webhooks into" lines={9}>
      {({ pipe, etag }) => <Webhooks seen={{ stored: pipe, etag }} />}
    </PipeFormPage>
  )
}

function Webhooks({ seen }: { seen: Versioned<Pipe> }) {
  const pipe = seen.stored
  const { pipe_source: source } = pipe
  const [chosen, setChosen] = useState<SourceType | null>(null)
  const [isChoosing, setChoosing] = useState(false)
  const [token, setToken] = useState<string | null>(null)
  const url = `${useDataUrl()}/v1/hooks/${pipe.pipe_id}`
  const type = chosen ?? source?.type ?? null
  const isStored = source !== null && source.type === type
  return (
    <>
      <Soft>
        A provider sends its events to an address of this pipe, without an API key: its signature is checked
        instead. Each event becomes a record.
      </Soft>
      {source === null ? null : <Arrivals pipe={pipe} source={source} />}
      {type === null || isChoosing ? (
        <Providers
          current={source?.type ?? null}
          onType={(next) => {
            setChosen(next === source?.type ? null : next)
            setChoosing(false)
          }}
        />
      ) : (
        <SourceForm
          key={`${type} ${isStored}`}
          seen={seen}
          type={type}
          url={url}
          onChangeProvider={() => setChoosing(true)}
          onSaved={(made) => {
            setChosen(null)
            setToken(made)
          }}
        />
      )}
      {source === null || !isStored || isChoosing ? null : (
        <>
          <Secrets seen={seen} source={source} onToken={setToken} />
          <Rejected pipeId={pipe.pipe_id} />
          <RemoveSource seen={seen} />
        </>
      )}
      {token === null ? null : (
        <ShownOnce
          title="Copy the address now"
          notice="The address is shown only once: pipectl stores only a hash of its token."
          label="Webhook address"
          text={`${url}/${token}`}
          onClose={() => setToken(null)}
        />
      )}
    </>
  )
}

function Providers({ current, onType }: { current: SourceType | null; onType: (type: SourceType) => void }) {
  const mayChange = useMayChange()
  return (
    <Step
      number={current === null ? 1 : null}
      title="Provider"
      actions={
        current === null ? null : (
          <Button look="plain" onClick={() => onType(current)}>
            Keep {sourceWords(current).title}
          </Button>
        )
      }
    >
      {mayChange ? null : <Soft>Only admins can set up webhooks.</Soft>}
      <div className={kinds.kinds}>
        {sourceTypes.map((type) => (
          <button
            key={type}
            type="button"
            className={kinds.kind}
            disabled={!mayChange}
            onClick={() => onType(type)}
          >
            <strong>{sourceWords(type).title}</strong>
            <Soft>{sourceWords(type).summary}</Soft>
          </button>
        ))}
      </div>
    </Step>
  )
}
