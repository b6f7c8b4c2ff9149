/**
 * The form of the alert settings: address, secret, format and events. Secrets are shown as `[redacted]`, which keeps
 * them.
 */
import { type AlertEvent, alertEventNames, alertEvents } from '../../../../contract/alert-words.ts'
import type { Alerts, AlertsPut } from '../../../../contract/alerts.ts'
import { hasUrlSecrets } from '../../../../contract/secret-url.ts'
import { command } from '../../../client/cli-twin.ts'
import { api } from '../../data/api.ts'
import type { Watched } from '../../data/if-unchanged.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { submitting, useEditForm } from '../../ui/edit-form.tsx'
import { Check, Choice, TextField } from '../../ui/fields.tsx'
import { FormActions } from '../../ui/form-actions.tsx'
import { CliTwin, Section } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'

const formats = [
  ['standard', 'JSON (Standard Webhooks)'],
  ['slack', 'Slack webhook'],
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

/**
 * If all events are selected, the field is omitted, so that events of later versions are sent too. An empty secret
 * means none.
 */
function bodyOf({ url, secret, format, events }: Draft): AlertsPut {
  const chosen = events.length === alertEventNames.length ? {} : { events: [...events] }
  return { url: url.trim(), secret: secret === '' ? null : secret, format, ...chosen }
}

export const watchedAlerts: Watched<Alerts | null> = {
  part: (alerts) => alerts ?? {},
  read: async () => {
    const { body, etag } = await api.call('getAlerts')
    return { stored: body.alerts, etag }
  },
}

export function AlertsForm({ stored, etag }: { stored: Alerts | null; etag: string | null }) {
  const form = useEditForm({
    initial: { stored, etag },
    draftOf,
    ...watchedAlerts,
    write: async ({ draft, ifMatch }) => {
      const reply = await api.call('putAlerts', { body: bodyOf(draft), ifMatch })
      return { stored: reply.body.alerts as Alerts | null, etag: reply.etag, reply }
    },
    onSaved: () => say('Alert settings saved.', twin),
  })
  const { draft, change, errors, isSaving } = form
  const twin = twinOf(draft, form.stored)
  const choose = (event: AlertEvent, isChosen: boolean) =>
    change({
      events: alertEventNames.filter((one) => (one === event ? isChosen : draft.events.includes(one))),
    })
  return (
    <Section title={form.stored === null ? 'Set up alerts' : 'Settings'}>
      <form className={formStyles.form} onSubmit={submitting(form.submit)}>
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
          hint="Parts shown as [redacted] keep their stored value."
          error={errors.url}
        />
        <TextField
          label="Signing secret"
          optional
          mono
          value={draft.secret}
          onValue={(secret) => change({ secret })}
          placeholder="whsec_…"
          hint="If empty, alerts are not signed."
          error={errors.secret}
        />
        <fieldset className={formStyles.form}>
          <legend>Events</legend>
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
        <FormActions
          failure={form.failure}
          shown={['url', 'secret', 'format', 'events']}
          conflict={form.conflict}
          isSticky
        >
          <Button type="submit" look="primary" changes disabled={draft.url.trim() === ''} isBusy={isSaving}>
            {isSaving ? 'Saving …' : 'Save'}
          </Button>
        </FormActions>
        <CliTwin command={twin} />
      </form>
    </Section>
  )
}

/** Secrets come from a file or a prompt, and are never part of a command. */
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
