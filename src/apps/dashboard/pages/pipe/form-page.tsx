/** A page with a form of a pipe: it keeps what was typed when another user deletes the pipe meanwhile. */
import type { ReactNode } from 'react'
import { isNotFound } from '../../data/api.ts'
import { usePipe } from '../../data/queries.ts'
import { Loading } from '../../ui/failure.tsx'
import { Notice, Page } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { Gone, PipeCrumb } from './crumbs.tsx'

type Loaded = NonNullable<ReturnType<typeof usePipe>['data']>

interface PipeFormPageProps {
  pipeId: string
  /** The title before the name of the pipe, such as "Settings of". */
  title: string
  /** The height of the page while it is loading. */
  lines: number
  children: (loaded: Loaded) => ReactNode
}

export function PipeFormPage({ pipeId, title, lines, children }: PipeFormPageProps) {
  const { data, error } = usePipe(pipeId)
  if (isNotFound(error) && data === undefined) return <Gone what="pipe" />
  return (
    <Page
      title={`${title} ${data?.pipe.pipe_name ?? 'a pipe'}`}
      name={
        <>
          {title} <Outside text={data?.pipe.pipe_name ?? '…'} />
        </>
      }
      crumbs={<PipeCrumb pipeId={pipeId} />}
      isForm
    >
      {isNotFound(error) ? (
        <Notice kind="bad">Another user deleted this pipe. You can still copy what you typed.</Notice>
      ) : null}
      {data === undefined ? <Loading error={error} lines={lines} /> : children(data)}
    </Page>
  )
}
