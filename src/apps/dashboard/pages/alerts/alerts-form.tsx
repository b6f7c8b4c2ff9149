/** The form of alerts: address, secret, format, and which events. Secrets are shown as `[redacted]`, which keeps them. */
import { useState } from 'react'
import { type AlertEvent, alertEventNames, alertEvents } from '../../../../contract/alert-words.ts'
import type { Alerts, AlertsPut } from '../../../../contract/alerts.ts'
import { hasUrlSecrets } from '../../../../contract/secret-url.ts'
import { command } from '../../../client/cli-twin.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { requireUnchanged, SaveFailure } from '../../ui/conflict.tsx'
import { Button, Check, Choice, formStyles, TextField } from '../../ui/controls.tsx'
import { fieldErrors } from '../../ui/failure.tsx'
import { CliTwin, Section } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'

const formats = [
  ['standard', 'JSON (Standard Webhooks)'],
  ['slack', 'A Slack webhook'],
] as const

interface Draft {
  url: string
  secret: string
  format: Alerts['format']
  events: readonly AlertEvent[]
}

function draftOf(stored: Alerts | null): Draft {
  return {
    url: stored?.url ?? '',
    secret: stored?.secret ?? '',
    format: stored?.format ?? 'standard',
    events: stored?.events ?? alertEventNames,
  }
}

/** All events are left out: later ones are told too. An empty secret is none. */
function bodyOf({ url, secret, format, events }: Draft): AlertsPut {
  const chosen = events.length === alertEventNames.length ? {} : { events: [...events] }
  return { url: url.trim(), secret: secret === '' ? null : secret, format, ...chosen }
}

export function AlertsForm({ stored }: { stored: Alerts | null }) {
  const [before, setBefore] = useState(stored)
  const [draft, setDraft] = useState(() => draftOf(stored))
  const change = (part: Partial<Draft>) => setDraft((now) => ({ ...now, ...part }))
  const save = useChange(async (isForced: boolean) => {
    const { body: now, etag } = await api.call('getAlerts')
    const ifMatch = isForced ? null : etag
    if (!isForced) requireUnchanged(before ?? {}, now.alerts ?? {})
    return (await api.call('putAlerts', { body: bodyOf(draft), ifMatch })).body.alerts
  })
  const reset = (to: Alerts | null) => {
    setBefore(to)
    setDraft(draftOf(to))
    save.reset()
  }
  const twin = twinOf(draft, before)
  const submit = (isForced: boolean) =>
    save.mutate(isForced, {
      onSuccess: (saved) => {
        reset(saved)
        say('Alerts are set.', twin)
      },
    })
  const errors = fieldErrors(save.error)
  const choose = (event: AlertEvent, isChosen: boolean) =>
    change({
      events: alertEventNames.filter((one) => (one === event ? isChosen : draft.events.includes(one))),
    })
  return (
    <Section title={before === null ? 'Set up alerts' : 'Change'}>
      <form
        className={formStyles.form}
        onSubmit={(event) => {
          event.preventDefault()
          submit(false)
        }}
      >
        <SaveFailure
          failure={save.error}
          shown={['url', 'secret', 'format', 'events']}
          onOverwrite={() => submit(true)}
          onReload={() => void api.call('getAlerts').then(({ body }) => reset(body.alerts))}
        />
        <Choice
          label="Format"
          value={draft.format}
          options={formats}
          onValue={(format) => change({ format })}
          error={errors.format}
        />
        <TextField
          label="Address"
          required
          mono
          value={draft.url}
          onValue={(url) => change({ url })}
          placeholder={
            draft.format === 'slack' ? 'https://hooks.slack.com/services/…' : 'https://example.com/hook'
          }
          hint="A part that shows as [redacted] stays as it is."
          error={errors.url}
        />
        <TextField
          label="Secret to sign with"
          optional
          mono
          value={draft.secret}
          onValue={(secret) => change({ secret })}
          placeholder="whsec_…"
          hint="Empty: alerts are not signed."
          error={errors.secret}
        />
        <fieldset className={formStyles.form}>
          <legend>What is told</legend>
          {alertEventNames.map((event, index) => (
            <Check
              key={event}
              label={event}
              hint={alertEvents[event]}
              checked={draft.events.includes(event)}
              onValue={(isChosen) => choose(event, isChosen)}
              error={index === alertEventNames.length - 1 ? errors.events : undefined}
            />
          ))}
        </fieldset>
        <div className={formStyles.actions}>
          <Button type="submit" look="primary" changes disabled={save.isPending || draft.url.trim() === ''}>
            {save.isPending ? 'Saving …' : 'Save'}
          </Button>
        </div>
        <CliTwin command={twin} />
      </form>
    </Section>
  )
}

/** Secrets are read from a file or asked for: they are never part of a command. */
function twinOf({ url, secret, format, events }: Draft, before: Alerts | null): string {
  const isOpen = format === 'standard' && !hasUrlSecrets(url.trim())
  const isKept = before !== null && url === before.url
  const isAll = events.length === alertEventNames.length
  return command(
    ...['alerts', 'set', '--format', format],
    ...(isKept ? [] : isOpen ? ['--url', url.trim() || 'URL'] : ['--url-file', 'FILE']),
    secret === '' ? before?.secret != null && '--unsigned' : secret !== before?.secret && '--ask-secret',
    ...['--events', isAll ? 'all' : events.join(',')],
  )
}
