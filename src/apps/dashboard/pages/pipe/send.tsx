/** How to send records to a pipe, and whether one has arrived. */
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { Link } from 'wouter'
import { writesClientIp } from '../../../../contract/client-ip.ts'
import type { Destination } from '../../../../contract/destination.ts'
import type { Pipe } from '../../../../contract/pipe.ts'
import { type Program, programNames, programSnippet, programs } from '../../../client/program-snippets.ts'
import {
  keyPlace,
  type Sample,
  type Snippet,
  sampleRecord,
  sending,
  snippets,
} from '../../../client/snippets.ts'
import { useIngestUrl } from '../../data/queries.ts'
import { Button } from '../../ui/controls.tsx'
import { Code, Notice, Skeleton, Soft } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { NewKey } from '../keys/new-key.tsx'
import styles from './pipe.module.css'

export function Snippets({ pipe, destinations }: { pipe: Pipe; destinations: readonly Destination[] }) {
  const [at, setAt] = useState(0)
  const [key, setKey] = useState<string | null>(null)
  const [isMaking, setMaking] = useState(false)
  const tabs = useRef<HTMLDivElement>(null)
  const url = useIngestUrl(pipe.pipe_id)
  const enriched = [
    ...(pipe.pipe_add_ingest_ts ? [pipe.pipe_ingest_ts_field] : []),
    ...(writesClientIp(pipe) ? [pipe.pipe_ingest_ip_field] : []),
  ]
  const unmapped = destinations.find((one) => one.columns?.length === 0)
  const record = sampleRecord(destinations, enriched, new Date())
  const keyText = pipe.pipe_api_key_required ? (key ?? keyPlace) : null
  const all = waysToSend(url, keyText, record)
  const shown = all[at]
  const move = (to: number) => {
    const next = (to + all.length) % all.length
    setAt(next)
    tabs.current?.querySelectorAll('button')[next]?.focus()
  }
  return (
    <div className={styles.snippets}>
      <Code label="Ingest URL" text={url} />
      <div className={styles.tabs} role="tablist" aria-label="Ways to send" ref={tabs}>
        {all.map(({ label }, index) => (
          <button
            key={label}
            type="button"
            role="tab"
            id={`send-tab-${index}`}
            aria-selected={index === at}
            aria-controls="send-panel"
            tabIndex={index === at ? 0 : -1}
            onClick={() => setAt(index)}
            onKeyDown={(event) => {
              if (event.key === 'ArrowRight') move(at + 1)
              if (event.key === 'ArrowLeft') move(at - 1)
            }}
          >
            {label}
          </button>
        ))}
      </div>
      {unmapped === undefined ? null : (
        <Soft>
          No column of the table <Outside text={String(unmapped.destination_config.table)} /> is mapped: each
          key goes to the column of the same name. Send keys that are names of its columns.
        </Soft>
      )}
      <div role="tabpanel" id="send-panel" aria-labelledby={`send-tab-${at}`}>
        {shown?.panel}
      </div>
      {pipe.pipe_api_key_required ? (
        <div className={styles.key}>
          <Button changes onClick={() => setMaking(true)}>
            New key for this pipe
          </Button>
          <Soft>
            {key === null
              ? 'A key that can only send records to this pipe. The snippets then contain it.'
              : 'The snippets contain the new key until you leave this page.'}{' '}
            All keys are on the page <Link to="/keys">API keys</Link>.
          </Soft>
        </div>
      ) : null}
      <Soft>
        Stripe, GitHub and other providers need no key:{' '}
        <Link to={`/pipes/${pipe.pipe_id}/settings/webhooks`}>accept their webhooks</Link>.
      </Soft>
      {isMaking ? <NewKey pipeId={pipe.pipe_id} onMade={setKey} onClose={() => setMaking(false)} /> : null}
    </div>
  )
}

interface Way {
  label: string
  panel: ReactNode
}

/** A pipe without a key accepts records only from web pages, not from programs. */
function waysToSend(url: string, key: string | null, record: Sample): Way[] {
  const short = snippets(url, key, record).map((one) => ({
    label: one.label,
    panel: <Shown snippet={one} />,
  }))
  if (key === null) return short
  const long = programNames.map((program) => ({
    label: programs[program].label,
    panel: <ProgramPanel key={program} program={program} url={url} apiKey={key} record={record} />,
  }))
  return [...short, ...long]
}

function Shown({ snippet: { label, text, guide } }: { snippet: Snippet }) {
  return (
    <>
      <Code label={label} text={text} />
      <Soft>
        See the guide <a href={`/docs/${guide.name}.html`}>{guide.title}</a>.
      </Soft>
    </>
  )
}

interface ProgramPanelProps {
  program: Program
  url: string
  apiKey: string
  record: Sample
}

function ProgramPanel({ program, url, apiKey, record }: ProgramPanelProps) {
  const [sources, setSources] = useState<Readonly<Record<Program, string>> | Error | null>(null)
  useEffect(() => {
    import('./program-sources.ts').then(({ programSources }) => setSources(programSources), setSources)
  }, [])
  if (sources === null) return <Skeleton lines={9} />
  if (sources instanceof Error) return <Notice kind="bad">The snippet could not be loaded.</Notice>
  const text = programSnippet(program, sources[program], { url, key: apiKey, record })
  return <Shown snippet={{ label: programs[program].label, text, guide: sending }} />
}

/** Shown until the first record arrives. */
export function WaitingForRecords() {
  return (
    <Notice>
      <span className={styles.pulse} aria-hidden="true">
        ●
      </span>{' '}
      Waiting for the first record. Send one with a snippet below: it appears here within two seconds.
    </Notice>
  )
}
