/** The address that receives the alerts of the workspace, the outcome of the last ones, and a test alert. */
import { useState } from 'react'
import { alertEventNames } from '../../../../contract/alert-words.ts'
import type { Alerts, AlertsShown } from '../../../../contract/alerts.ts'
import { areAlertsFailing } from '../../../client/alerts.ts'
import { command } from '../../../client/cli-twin.ts'
import { api } from '../../data/api.ts'
import { useAlerts, useChange } from '../../data/queries.ts'
import { useMayChange } from '../../data/session-context.ts'
import { ConfirmDelete } from '../../ui/confirm.tsx'
import { Button } from '../../ui/controls.tsx'
import { FailureNotice, Loading } from '../../ui/failure.tsx'
import { CliTwin, Empty, Facts, Notice, Page, Section, Soft } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { AlertsForm, watchedAlerts } from './alerts-form.tsx'

export function AlertsPage() {
  const { data, error } = useAlerts()
  return (
    <Page title="Alerts" name="Alerts" isForm>
      <Soft>
        Alerts are sent to one address when a lane fails, recovers or loses messages, and when the service has
        a problem.
      </Soft>
      {data === undefined ? (
        <Loading error={error} />
      ) : (
        <Shown key={data.alerts === null ? 'none' : 'some'} shown={data} etag={data.etag} />
      )}
    </Page>
  )
}

function Shown({ shown, etag }: { shown: AlertsShown; etag: string | null }) {
  const mayChange = useMayChange()
  const { alerts } = shown
  return (
    <>
      {alerts === null ? null : <State shown={shown} etag={etag} />}
      {mayChange ? (
        <AlertsForm stored={alerts} etag={etag} />
      ) : alerts === null ? (
        <Empty title="No alerts are set up">
          <p>An admin can set them up here.</p>
        </Empty>
      ) : (
        <Section title="Events">
          <ul>
            {alerts.events.map((event) => (
              <li key={event}>
                <code>{event}</code>
              </li>
            ))}
          </ul>
        </Section>
      )}
    </>
  )
}

function State({ shown, etag }: { shown: AlertsShown; etag: string | null }) {
  const [isClearing, setClearing] = useState(false)
  const test = useChange(async () => (await api.call('testAlerts')).body)
  const { alerts, status } = shown
  if (alerts === null || status === null) return null
  const { last_failure: failure } = status
  return (
    <Section
      title="State"
      actions={
        <div>
          <Button changes isBusy={test.isPending} onClick={() => test.mutate()}>
            {test.isPending ? 'Sending …' : 'Send a test alert'}
          </Button>{' '}
          <Button changes onClick={() => setClearing(true)}>
            Remove …
          </Button>
        </div>
      }
    >
      {areAlertsFailing(shown) && failure !== null ? (
        <Notice kind="warn">
          The last alert could not be sent (<Ago at={failure.failure_ts} />
          ): <Outside text={failure.message} />
        </Notice>
      ) : null}
      <Facts
        facts={[
          ['To', <Outside key="to" text={alerts.url} />],
          ['Format', alerts.format],
          ['Signed', alerts.secret === null ? 'no' : 'yes'],
          [
            'Events',
            alerts.events.length === alertEventNames.length ? 'all' : `${alerts.events.length} events`,
          ],
          ['Pending', String(status.pending_alerts)],
          ['Last sent', <Ago key="sent" at={status.last_sent_ts} />],
        ]}
      />
      <FailureNotice failure={test.error} />
      {test.data === undefined ? null : (
        <Notice kind={test.data.ok ? 'good' : 'bad'}>
          {test.data.ok ? 'The test alert arrived. ' : 'The test alert was not accepted. '}
          <Outside text={test.data.message} />
        </Notice>
      )}
      <CliTwin command={command('alerts', 'test')} />
      {isClearing ? <RemoveDialog alerts={alerts} etag={etag} onClose={() => setClearing(false)} /> : null}
    </Section>
  )
}

interface RemoveDialogProps {
  alerts: Alerts
  etag: string | null
  onClose: () => void
}

function RemoveDialog({ alerts, etag, onClose }: RemoveDialogProps) {
  const remove = useChange((ifMatch: string | null) => api.call('deleteAlerts', { ifMatch }))
  const twin = command('alerts', 'clear', '--yes')
  return (
    <ConfirmDelete<Alerts | null>
      title="Remove the alert settings?"
      confirmLabel="Remove"
      command={twin}
      seen={{ stored: alerts, etag }}
      {...watchedAlerts}
      remove={async (ifMatch) => {
        await remove.mutateAsync(ifMatch)
        say('Alert settings removed.', twin)
      }}
      onClose={onClose}
    >
      The address, its secret and all unsent alerts are deleted. No alert is sent from then on.
    </ConfirmDelete>
  )
}
