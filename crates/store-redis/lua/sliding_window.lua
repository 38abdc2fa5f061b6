-- Sliding-window counter. State: when the later of two windows stops mattering, the count of the
-- earlier one, the count of the later one.
-- Rule: kind, limit, window, scale.
--
-- Stored as one integer, (index of that instant * scale + the earlier) * scale + the later, as a
-- fixed window is. A state that does not fit is packed, an instant first: its first byte is smaller
-- than any digit.
local function sliding_window()
  local it = { sums = true }

  function it.read(rule, raw)
    local number, scale = whole(raw), rule[4]
    if not number then return unpack_three(raw) end
    local current = number % scale
    local previous = (number - current) / scale % scale
    return floor(number / scale / scale) * rule[3], previous, current
  end

  local function up_to(rule, now, final, previous, current)
    local window = rule[3]
    local left = final - now
    if left <= 0 then return floor(now / window) * window + 2 * window, 0, 0 end
    if left <= window then return final + window, current, 0 end
    if left <= 2 * window then return final, previous, current end
    -- The clock went back: the position of those requests in their windows is no longer known.
    return floor(now / window) * window + 2 * window, 0, previous + current
  end

  -- The clock went back by so little that it may come forward again: then the windows stay.
  local function is_ahead(rule, now, final)
    return final - now > 2 * rule[3] and final - now <= 4 * rule[3]
  end

  function it.take(rule, now, final, previous, current, cost)
    local to, before, here = up_to(rule, now, final, previous, current)
    local room = rule[2] - here - cost
    local fits = room >= 0 and at_most(before, to - now - rule[3], room, rule[3])
    if is_ahead(rule, now, final) then return fits, final, previous, current + cost end
    return fits, to, before, here + cost
  end

  function it.deny(rule, now, final, previous, current)
    if final - now > 4 * rule[3] then
      return true, up_to(rule, now, final, previous, current)
    end
  end

  function it.give(rule, now, final, previous, current, amount)
    if not is_ahead(rule, now, final) then
      final, previous, current = up_to(rule, now, final, previous, current)
    end
    local rest = max(0, amount - current)
    return true, final, max(0, previous - rest), max(0, current - amount)
  end

  function it.write(key, rule, now, raw, final, previous, current)
    local index, scale = final / rule[3], rule[4]
    local number = (index * scale + previous) * scale + current
    if index % 1 > 0 or max(previous, current) >= scale or number > LARGEST then
      return keep(key, raw, pack_three(final, previous, current), final - now)
    end
    -- In the same windows the time to live does not change: no other write is as cheap.
    local stored = raw and whole(raw)
    if stored and floor(stored / scale / scale) == index then
      return call('INCRBY', key, format('%.0f', number - stored))
    end
    return keep(key, raw, format('%.0f', number), final - now)
  end

  return it
end
