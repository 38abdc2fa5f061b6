-- Sliding-window counter. State: when the later of two windows stops to matter, the count of the
-- earlier one, the count of the later one.
-- Rule: kind, limit, window.
local function sliding_window()
  local it = {}

  function it.read(_, raw)
    return unpack_three(raw)
  end

  local function up_to(rule, now, final, previous, current)
    local window = rule[3]
    local left = final - now
    if left <= 0 then return floor(now / window) * window + 2 * window, 0, 0 end
    if left <= window then return final + window, current, 0 end
    if left <= 2 * window then return final, previous, current end
    -- The clock went back: where in their windows those requests fell is no longer known.
    return floor(now / window) * window + 2 * window, 0, min(previous + current, rule[2])
  end

  function it.take(rule, now, final, previous, current, cost)
    final, previous, current = up_to(rule, now, final, previous, current)
    local room = rule[2] - current - cost
    local fits = room >= 0 and at_most(previous, final - now - rule[3], room, rule[3])
    return fits, final, previous, current + cost
  end

  function it.deny(rule, now, final, previous, current)
    if final - now > 2 * rule[3] then
      return true, up_to(rule, now, final, previous, current)
    end
  end

  function it.give(rule, now, final, previous, current, amount)
    final, previous, current = up_to(rule, now, final, previous, current)
    local rest = max(0, amount - current)
    return true, final, max(0, previous - rest), max(0, current - amount)
  end

  function it.write(key, _, now, raw, final, previous, current)
    local state = pack_three(final, previous, current)
    -- Of the same windows, it lives as long as it did: no other write is as cheap.
    if raw and #raw == #state and raw:sub(1, 7) == state:sub(1, 7) then
      return call('SETRANGE', key, '0', state)
    end
    return keep(key, raw, state, final - now)
  end

  return it
end
