/** Maps addresses to pages. Pages that are not needed first are loaded when they are opened. */
import { QueryClientProvider } from '@tanstack/react-query'
import { type ComponentType, type LazyExoticComponent, lazy, Suspense } from 'react'
import { Link, Route, Router, Switch, useLocation } from 'wouter'
import { queryClient } from '../data/query-client.ts'
import { OverviewPage } from '../pages/overview/overview.tsx'
import { Empty, Page, Skeleton } from '../ui/layout.tsx'
import { Guard } from './guard.tsx'
import { SessionGate } from './session.tsx'
import { Shell } from './shell.tsx'

const SetupPage = lazy(() => import('./sign-in.tsx').then((m) => ({ default: m.SetupPage })))
const PipesPage = lazy(() => import('../pages/pipes/pipes.tsx').then((m) => ({ default: m.PipesPage })))
const NewPipePage = lazy(() =>
  import('../pages/pipes/new-pipe.tsx').then((m) => ({ default: m.NewPipePage })),
)
const PipePage = lazy(() => import('../pages/pipe/pipe.tsx').then((m) => ({ default: m.PipePage })))
const PipeSettingsPage = lazy(() =>
  import('../pages/pipe/settings.tsx').then((m) => ({ default: m.PipeSettingsPage })),
)
const NewDestinationPage = lazy(() =>
  import('../pages/destination/new.tsx').then((m) => ({ default: m.NewDestinationPage })),
)
const EditDestinationPage = lazy(() =>
  import('../pages/destination/edit.tsx').then((m) => ({ default: m.EditDestinationPage })),
)
const LanePage = lazy(() => import('../pages/lane/lane.tsx').then((m) => ({ default: m.LanePage })))
const ParkedListPage = lazy(() =>
  import('../pages/parked/list.tsx').then((m) => ({ default: m.ParkedListPage })),
)
const ParkedPage = lazy(() => import('../pages/parked/one.tsx').then((m) => ({ default: m.ParkedPage })))
const PipeParkedPage = lazy(() =>
  import('../pages/pipe-parked/pipe-parked.tsx').then((m) => ({ default: m.PipeParkedPage })),
)
const TailPage = lazy(() => import('../pages/tail/tail.tsx').then((m) => ({ default: m.TailPage })))
const MessagePage = lazy(() =>
  import('../pages/message/message.tsx').then((m) => ({ default: m.MessagePage })),
)
const MessagesPage = lazy(() =>
  import('../pages/message/message.tsx').then((m) => ({ default: m.MessagesPage })),
)
const LanesPage = lazy(() => import('../pages/lanes/lanes.tsx').then((m) => ({ default: m.LanesPage })))
const KeysPage = lazy(() => import('../pages/keys/keys.tsx').then((m) => ({ default: m.KeysPage })))
const UsersPage = lazy(() => import('../pages/users/users.tsx').then((m) => ({ default: m.UsersPage })))
const AuditPage = lazy(() => import('../pages/audit/audit.tsx').then((m) => ({ default: m.AuditPage })))
const PrivacyPage = lazy(() =>
  import('../pages/privacy/privacy.tsx').then((m) => ({ default: m.PrivacyPage })),
)
const AlertsPage = lazy(() => import('../pages/alerts/alerts.tsx').then((m) => ({ default: m.AlertsPage })))
const ServicePage = lazy(() =>
  import('../pages/service/service.tsx').then((m) => ({ default: m.ServicePage })),
)
const ReferencePage = lazy(() =>
  import('../pages/reference/reference.tsx').then((m) => ({ default: m.ReferencePage })),
)

/** The parameters of an address become properties. Another address of the same page resets its state. */
function page<P extends object>(Component: LazyExoticComponent<ComponentType<P>>) {
  return (params: object) => <Component key={JSON.stringify(params)} {...(params as P)} />
}

export function App() {
  return (
    <QueryClientProvider client={queryClient}>
      <Router base={import.meta.env.BASE_URL.replace(/\/$/, '')}>
        <Switch>
          <Route path="/setup">
            <Suspense fallback={null}>
              <SetupPage />
            </Suspense>
          </Route>
          <Route>
            <SessionGate>
              <Shell>
                <Pages />
              </Shell>
            </SessionGate>
          </Route>
        </Switch>
      </Router>
    </QueryClientProvider>
  )
}

/** A page that failed to render is reset when the user opens another page. */
function Pages() {
  const [place] = useLocation()
  return (
    <Guard key={place}>
      <Suspense fallback={<Skeleton />}>
        <PageAt />
      </Suspense>
    </Guard>
  )
}

function PageAt() {
  return (
    <Switch>
      <Route path="/">
        <OverviewPage />
      </Route>
      <Route path="/pipes">
        <PipesPage />
      </Route>
      <Route path="/pipes/new">
        <NewPipePage />
      </Route>
      <Route path="/pipes/:pipeId">{page(PipePage)}</Route>
      <Route path="/pipes/:pipeId/settings/:part?">{page(PipeSettingsPage)}</Route>
      <Route path="/pipes/:pipeId/parked/:parkedId?">{page(PipeParkedPage)}</Route>
      <Route path="/pipes/:pipeId/tail">{page(TailPage)}</Route>
      <Route path="/pipes/:pipeId/destinations/new">{page(NewDestinationPage)}</Route>
      <Route path="/pipes/:pipeId/destinations/:destinationId">{page(LanePage)}</Route>
      <Route path="/pipes/:pipeId/destinations/:destinationId/edit">{page(EditDestinationPage)}</Route>
      <Route path="/pipes/:pipeId/destinations/:destinationId/parked">{page(ParkedListPage)}</Route>
      <Route path="/pipes/:pipeId/destinations/:destinationId/parked/:parkedId">{page(ParkedPage)}</Route>
      <Route path="/lanes">
        <LanesPage />
      </Route>
      <Route path="/messages">
        <MessagesPage />
      </Route>
      <Route path="/messages/:msgId">{page(MessagePage)}</Route>
      <Route path="/keys">
        <KeysPage />
      </Route>
      <Route path="/users">
        <UsersPage />
      </Route>
      <Route path="/audit">
        <AuditPage />
      </Route>
      <Route path="/privacy">
        <PrivacyPage />
      </Route>
      <Route path="/alerts">
        <AlertsPage />
      </Route>
      <Route path="/service">
        <ServicePage />
      </Route>
      <Route path="/reference">
        <ReferencePage />
      </Route>
      <Route>
        <Page title="Not found" name="Page not found">
          <Empty title="There is no page at this address">
            <Link to="/">Go to the overview</Link>
          </Empty>
        </Page>
      </Route>
    </Switch>
  )
}
