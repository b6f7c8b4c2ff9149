/** Contains an error of one page, so that the other pages still work. */
import { Component, type ReactNode } from 'react'
import { Button } from '../ui/controls.tsx'
import { Notice } from '../ui/layout.tsx'
import { Outside } from '../ui/text.tsx'

export class Guard extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null as Error | null }

  static getDerivedStateFromError(error: Error) {
    return { error }
  }

  override render() {
    const { error } = this.state
    if (error === null) return this.props.children
    // After an update of pipectl, the files of the old pages no longer exist. Reloading the page gets the new ones.
    return (
      <Notice kind="bad" actions={<Button onClick={() => location.reload()}>Reload the page</Button>}>
        This page cannot be shown: <Outside text={error.message} />
      </Notice>
    )
  }
}
