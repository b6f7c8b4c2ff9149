/** A mistake of ours on one page must not take the others away. */
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
    // After an update of pipectl the parts of an old page are gone: loading the page again gets the new ones.
    return (
      <Notice kind="bad" actions={<Button onClick={() => location.reload()}>Reload the page</Button>}>
        This page cannot be shown: <Outside text={error.message} />
      </Notice>
    )
  }
}
